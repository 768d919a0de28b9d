//! A plan, carried out by bubblewrap; what is inside stays with `inner`, which bubblewrap executes
//! as the first process of the view that it has made.

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};

use super::{Bwrap, Surroundings, arguments, empty_file};
use crate::launch::{Command, FIRST_DESCRIPTOR, Failure, Launch, Program, SignalTarget};
use crate::linux::builtin::{self, Options};
use crate::linux::inner::{self, Contents, Role, Script, Step, c_path, sealed};
use crate::linux::proc_covers::ProcCovers;
use crate::linux::seccomp::Nesting;
use crate::plan::{Mount, Plan, View};

/// What launches share, found at the server's start.
#[derive(Debug, Clone)]
pub struct Tools {
    bwrap: Bwrap,
    empty_file: PathBuf,
    covers: ProcCovers,
    server_is_root: bool,
}

impl Tools {
    /// `directory` is the server's own; commands must not be able to write there.
    pub fn new(bwrap: Bwrap, directory: &Path) -> io::Result<Tools> {
        Ok(Tools {
            bwrap,
            empty_file: empty_file(directory)?,
            covers: ProcCovers::of_host(),
            server_is_root: rustix::process::geteuid().is_root(),
        })
    }
}

/// Behind the program and the status channel.
const ARGUMENTS_DESCRIPTOR: i32 = FIRST_DESCRIPTOR + 2;
const INNER_DESCRIPTOR: i32 = FIRST_DESCRIPTOR + 3;

/// Makes everything ready, or says what stands against it.
pub fn launch(
    tools: &Tools,
    plan: &Plan,
    command: &Command<'_>,
    options: &Options<'_>,
) -> Result<Launch, Failure> {
    // A filter alone needs no namespaces, and so no bubblewrap.
    let Some(view) = &plan.view else { return builtin::launch(plan, command, options) };
    let Tools { bwrap, empty_file, covers, server_is_root } = tools;
    if bwrap.is_within_reach(&view.writable, *server_is_root) {
        let error = io::Error::other("a command could have changed it");
        return Err(Failure::new(format!("use {}", bwrap.path.display()), error));
    }
    let around = Surroundings {
        network: plan.network,
        disable_user_namespaces: bwrap.disable_userns && options.nesting == Nesting::Refused,
        empty_file,
        covers,
        // The first process says its number on the status channel.
        info_descriptor: None,
    };
    let list = arguments(view, &around)
        .map_err(|error| Failure::new("tell bubblewrap", io::Error::other(error)))?;

    let mut script = Script::new();
    push_witnesses(&mut script, view)?;
    builtin::push_locks(&mut script, plan, command.terminal, options)?;
    let ready = script.launch_command(command, &plan.cwd, Role::FirstProcess)?;
    let mut descriptors = ready.descriptors;
    let file = |step: &str, made: io::Result<_>| made.map_err(|error| Failure::new(step, error));
    descriptors.push(file("write the arguments", sealed_at_start(&list))?);
    let program = inner::executable().and_then(|program| program.try_clone());
    descriptors.push(file("write inner", program.and_then(inner::raised))?);
    Ok(Launch {
        program: Program::Path(c_path(&bwrap.path)?),
        argv: argv()?,
        descriptors,
        clone_flags: 0,
        capabilities: 0,
        takes_terminal: true,
        signals: SignalTarget::Reporter,
        status: ready.status,
    })
}

fn argv() -> Result<Vec<CString>, Failure> {
    let arguments = ARGUMENTS_DESCRIPTOR.to_string();
    let inner = format!("/proc/self/fd/{INNER_DESCRIPTOR}");
    let words = ["bwrap", "--args", &arguments, "--", &inner];
    let words: Result<Vec<CString>, _> = words.into_iter().map(CString::new).collect();
    words.map_err(|error| Failure::new("tell bubblewrap", io::Error::other(error)))
}

/// bubblewrap reads from where the file stands.
fn sealed_at_start(bytes: &[u8]) -> io::Result<std::os::fd::OwnedFd> {
    let file = sealed(c"exec-arguments", bytes, Contents::Data)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
    Ok(file)
}

/// What is mounted or left as it is can be compared inside; what is hidden cannot be seen there any
/// more, and what is wrong below it harms nobody.
fn push_witnesses(script: &mut Script, view: &View) -> Result<(), Failure> {
    let hides = |mount: &Mount, path: &Path| matches!(mount, Mount::MaskDirectory { path: at, .. } | Mount::MaskFile(at) if at == path);
    for witness in &view.witnesses {
        if view.mounts.iter().any(|mount| hides(mount, &witness.path)) {
            continue;
        }
        let object = builtin::object(witness.device, witness.inode);
        script.push(Step::Witness { path: &c_path(&witness.path)?, object });
    }
    Ok(())
}
