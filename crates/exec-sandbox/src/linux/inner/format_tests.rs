//! Whatever is encoded is decoded as it was, and whatever else is decoded is refused without harm.

use std::ffi::{CStr, CString};

use proptest::prelude::*;

use super::*;

/// A step that owns its texts.
#[derive(Debug, Clone)]
struct Owned {
    kind: u8,
    path: CString,
    text: CString,
    list: Vec<u8>,
    numbers: [u64; 3],
    flag: bool,
    witness: Option<Object>,
}

impl Owned {
    fn step(&self) -> Step<'_> {
        let (path, witness, flag) = (self.path.as_c_str(), self.witness, self.flag);
        let [a, b, c] = self.numbers;
        let small = |number: u64| u32::try_from(number & 0xffff_ffff).unwrap();
        let list = Texts::new(&self.list).unwrap();
        match self.kind {
            0 => Step::Identity { uid: small(a), gid: small(b) },
            1 => Step::Unshare { flags: a },
            2 => Step::NoUserNamespaces,
            3 => Step::Loopback,
            4 => Step::Root(if flag { RootKind::Empty } else { RootKind::HostReadOnly }),
            5 => Step::Devices { terminal: flag },
            6 => Step::SharedMemory,
            7 => Step::Bind { path, writable: flag, witness },
            8 => Step::Pin { path, witness },
            9 => Step::Link { path, target: &self.text },
            10 => {
                Step::MaskDirectory { path, mode: small(a), passages: list, files: list, witness }
            }
            11 => Step::MaskFile { path, witness },
            12 => Step::Processes,
            13 => Step::SealRoot,
            14 => Step::Witness {
                path,
                object: witness.unwrap_or(Object { major: 1, minor: 2, inode: a }),
            },
            15 => Step::Enter,
            16 => Step::Limit { resource: small(a), soft: b, hard: c },
            17 => Step::DropCapabilities,
            18 => Step::NoNewPrivileges,
            19 => Step::Landlock { file_rights: a, port_rights: c, scopes: b },
            20 => Step::LandlockAllow { path, rights: a },
            21 => Step::LandlockAllowDescriptor { descriptor: small(a), rights: b },
            22 => Step::LandlockEnforce,
            23 => Step::Root(RootKind::HostWritable),
            _ => Step::Filter { flags: small(a), instructions: &[6, 0, 0, 0, 0, 0, 0xff, 0x7f] },
        }
    }
}

fn path() -> impl Strategy<Value = CString> {
    prop::collection::vec("[a-z][a-zäß. ]{0,6}", 0..4)
        .prop_map(|parts| CString::new(format!("/{}", parts.join("/"))).unwrap())
}

fn texts() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec("[^\0]{0,5}", 0..4).prop_map(|texts| {
        texts.iter().flat_map(|text| text.bytes().chain([0])).collect::<Vec<u8>>()
    })
}

fn object() -> impl Strategy<Value = Object> {
    any::<(u32, u32, u64)>().prop_map(|(major, minor, inode)| Object { major, minor, inode })
}

fn step() -> impl Strategy<Value = Owned> {
    let rest = (any::<[u64; 3]>(), any::<bool>(), prop::option::of(object()));
    (0..25_u8, path(), "[^\0]{0,9}", texts(), rest).prop_map(|(kind, path, text, list, rest)| {
        let (numbers, flag, witness) = rest;
        Owned { kind, path, text: CString::new(text).unwrap(), list, numbers, flag, witness }
    })
}

fn decode(program: &[u8]) -> Result<Vec<Step<'_>>, format::Malformed> {
    Steps::new(program)?.collect()
}

fn command<'a>(path: &'a CStr, list: &'a [u8]) -> Step<'a> {
    let list = Texts::new(list).unwrap();
    let (becomes, terminal, cwd) = (true, false, path);
    Step::Command { becomes, terminal, cwd, candidates: list, argv: list, env: list }
}

proptest! {
    #[test]
    fn a_program_is_decoded_as_it_was_encoded(
        steps in prop::collection::vec(step(), 0..12), path in path(), list in texts(),
    ) {
        let mut script = Script::new();
        let mut expected: Vec<Step<'_>> = steps.iter().map(Owned::step).collect();
        expected.push(command(&path, &list));
        expected.iter().for_each(|step| script.push(*step));
        prop_assert_eq!(decode(&script.bytes).unwrap(), expected);
    }

    #[test]
    fn a_program_that_was_cut_or_changed_is_no_other_length(
        steps in prop::collection::vec(step(), 1..6), cut in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut script = Script::new();
        steps.iter().for_each(|step| script.push(step.step()));
        // Cut anywhere but between two steps, it is refused; and in no case does it panic.
        let all = decode(&script.bytes).unwrap().len();
        let cut = &script.bytes[..cut.index(script.bytes.len())];
        if let Ok(steps) = decode(cut) {
            prop_assert!(steps.len() < all);
        }
        let at = at.index(script.bytes.len());
        script.bytes[at] = byte;
        let _any = decode(&script.bytes).is_ok();
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..256)) {
        let _any = decode(&[&MAGIC, &bytes[..]].concat()).is_ok();
        prop_assert!(decode(&bytes).is_err() || bytes.starts_with(&MAGIC));
        let _any = Status::decode(&bytes);
    }

    #[test]
    fn a_status_is_decoded_as_it_was_encoded(step in any::<u32>(), errno in 0..4096_i32) {
        let failed = Status::Failed { step, deed: Deed::Attach, errno };
        for status in [failed, Status::Ready, Status::NotExecuted { errno }, Status::Malformed, Status::Executing] {
            prop_assert_eq!(Status::decode(&status.encode()), Some(status));
            prop_assert_eq!(Status::decode(&status.encode()[1..]), None);
        }
    }
}

#[test]
fn what_is_wrong_with_a_program_is_found() {
    let refused = |step: Step<'_>| {
        let mut script = Script::new();
        script.push(step);
        assert!(decode(&script.bytes).is_err(), "{step:?}");
    };
    for path in [c"", c"relative", c"/a/../b", c"/a/./b", c"//a", c"/a/", c"/a//b"] {
        refused(Step::Pin { path, witness: None });
    }
    refused(Step::Filter { flags: 0, instructions: &[] });
    refused(Step::Filter { flags: 0, instructions: &[0; 12] });
    refused(Step::Filter { flags: 0, instructions: &[0; 8 * 4097] });
    // Nothing follows the command.
    let mut script = Script::new();
    script.push(command(c"/", b"x\0"));
    assert!(decode(&script.bytes).is_ok());
    script.push(Step::Enter);
    assert!(decode(&script.bytes).is_err());
    assert!(decode(b"").is_err() && Texts::new(b"x").is_none());
    assert_eq!(Texts::new(b"a\0\0b\0").unwrap().collect::<Vec<_>>(), [c"a", c"", c"b"]);
}

#[test]
fn a_failed_step_is_named() {
    let mut script = Script::new();
    script.push(Step::Enter);
    script.push(Step::Bind { path: c"/a", writable: true, witness: None });
    assert_eq!(script.explain(1), "mount /a writable");
    assert_eq!(script.explain(7), "step 7");
}
