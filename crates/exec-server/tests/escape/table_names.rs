//! Protected names, denied paths and patterns, and roots that are not what they seem.

use super::attempt::{Attempt, Free, probe, sh};
use super::policy::Policy::{
    Denies, EverythingButDenied, Minimal, NestedRoots, TwoRoots, Workspace, WorkspaceGit,
    WorkspaceTemporary,
};

/// No protected name is there yet.
const BARE: &str = "rm -rf ws/.git ws/.codex ws/.agents ws/.aws";
/// `.git` says where the real one is.
const POINTER: &str = "mv ws/.git ws/real; echo 'gitdir: real' > ws/.git";
/// A work tree whose repository lies in the second workspace.
const WORKTREE: &str = "rm -rf ws/.git; mkdir -p two/main/.git/worktrees/w two/main/.git/hooks; \
    echo intact > two/main/.git/config; echo intact > two/main/.git/worktrees/w/HEAD; \
    echo ../.. > two/main/.git/worktrees/w/commondir; echo 'gitdir: ../two/main/.git/worktrees/w' > ws/.git";

#[rustfmt::skip]
pub const METADATA: &[Attempt] = &[
    sh("27: a hook", Workspace, "echo x > .git/hooks/pre-commit").denied(2),
    sh("27: an existing hook", Workspace, "echo x > .git/hooks/sample").denied(2),
    sh("27: git's configuration", Workspace, "echo x >> .git/config").denied(2),
    sh("27: codex's configuration", Workspace, "echo x > .codex/config.toml").denied(2),
    sh("27: a new file of codex", Workspace, "echo x > .codex/rules").denied(2),
    sh("27: agents", Workspace, "echo x > .agents/skill").denied(2),
    sh("27: AWS", Workspace, "echo x > .aws/credentials").denied(2),
    sh("27: the mode of a hook", Workspace, "chmod 777 .git/hooks/sample").denied(1),
    sh("27: a hard link to a hook", Workspace, "ln .git/hooks/sample h; echo x > h"),
    sh("27: through a link", Workspace, "ln -s .git g; echo x > g/config").denied(2),
    sh("27: through /proc/self/cwd", Workspace, "echo x > /proc/self/cwd/.git/config").denied(2),
    sh("28: rename .git", Workspace, "mv .git g"),
    sh("28: rename over .git", Workspace, "mkdir g; mv -T g .git")
        .setup("rm -r ws/.git; mkdir ws/.git"),
    sh("28: a link over .git", Workspace, "ln -sfn $OUT .git"),
    sh("28: rename into .git", Workspace, "mv a.txt .git/a.txt"),
    sh("28: rename .codex", Workspace, "mv .codex c").free(Free::Escapes),
    probe("28: exchange .git", Workspace, "exchange $WS/.git $WS/src"),
    probe("28: exchange .aws", Workspace, "exchange $WS/.aws $WS/src"),
    sh("29: remove .git", Workspace, "rm -rf .git"),
    sh("29: remove all of them", Workspace, "rm -rf .git .codex .agents .aws"),
    sh("30: make .git", Workspace, "mkdir .git").setup(BARE),
    sh("30: make .codex", Workspace, "mkdir .codex").setup(BARE),
    sh("30: make .agents", Workspace, "mkdir .agents").setup(BARE),
    sh("30: make .aws", Workspace, "mkdir .aws").setup(BARE),
    sh(
        "30: make .git and what is in it",
        Workspace,
        "mkdir -p .git/hooks && echo x > .git/hooks/pre-commit",
    )
    .setup(BARE),
    sh("30: .git as a file", Workspace, "echo 'gitdir: x' > .git").setup(BARE),
    sh("30: .git as a link", Workspace, "ln -s src .git").setup(BARE),
    sh("30: .git as a hard link", Workspace, "ln a.txt .git").setup(BARE),
    sh("30: .git by renaming a folder", Workspace, "mkdir g; mv -T g .git").setup(BARE),
    sh("30: .git by renaming a file", Workspace, "mv -T a.txt .git").setup(BARE),
    sh("30: .git as a FIFO", Workspace, "mkfifo .git").setup(BARE),
    sh("30: .codex as a file", Workspace, "echo x > .codex").setup(BARE),
    sh("30: .codex as a link", Workspace, "ln -s src .codex").setup(BARE),
    sh("30: .aws by renaming", Workspace, "mkdir a; mv -T a .aws").setup(BARE),
    sh("30: git init", Workspace, "git init -q .").setup(BARE).free(Free::Depends),
    sh("30: remove the placeholder", Workspace, "rmdir .git; rm -rf .git; mkdir .git").setup(BARE),
    sh("30: rename the placeholder", Workspace, "mv .git g; mkdir .git").setup(BARE),
    sh("30: in the second workspace", TwoRoots, "mkdir $WORLD/two/.git"),
    sh("30: in the temporary folder", WorkspaceTemporary, "mkdir $TMPDIR/.git")
        .env(&[("TMPDIR", "$WORLD/tmp")]),
    sh("30: in a workspace below a workspace", NestedRoots, "mkdir sub/.git && echo DID"),
    sh("30: minimal", Minimal, "mkdir .git").setup(BARE),
    sh(
        "30: work goes on without them",
        Workspace,
        "echo x > new && rm new && mkdir d && echo ok > d/f",
    )
    .setup(BARE)
    .works("ws/d/f"),
    sh("33: the real git folder", Workspace, "echo x > real/config && echo DID").setup(POINTER),
    sh(
        "33: a hook in the real git folder",
        Workspace,
        "echo x > real/hooks/pre-commit && echo DID",
    )
    .setup(POINTER),
    sh("33: rename the real git folder", Workspace, "mv real r && echo DID").setup(POINTER),
    sh("33: the pointer", Workspace, "echo 'gitdir: src' > .git").setup(POINTER),
    sh("33: replace the pointer", Workspace, "rm .git; echo 'gitdir: src' > .git").setup(POINTER),
    sh("33: rename over the pointer", Workspace, "echo 'gitdir: src' > p; mv p .git")
        .setup(POINTER),
    sh(
        "33: a git folder in the second workspace",
        TwoRoots,
        "echo x > $WORLD/two/real/config && echo DID",
    )
    .setup("mv ws/.git two/real; echo 'gitdir: ../two/real' > ws/.git"),
    sh(
        "34: the work tree's own folder",
        TwoRoots,
        "echo x > $WORLD/two/main/.git/worktrees/w/HEAD && echo DID",
    )
    .setup(WORKTREE),
    sh(
        "34: configuration of the main repository",
        TwoRoots,
        "echo x > $WORLD/two/main/.git/config && echo DID",
    )
    .setup(WORKTREE),
    sh(
        "34: hooks of the main repository",
        TwoRoots,
        "echo x > $WORLD/two/main/.git/hooks/pre-commit && echo DID",
    )
    .setup(WORKTREE),
    sh("34: rename the main repository", TwoRoots, "mv $WORLD/two/main $WORLD/two/m && echo DID")
        .setup(WORKTREE),
    sh(
        "34: rename what holds the main repository's folder",
        TwoRoots,
        "mv $WORLD/two/main/.git $WORLD/two/main/g && echo DID",
    )
    .setup(WORKTREE),
    sh("36: .git is a link, write through it", Workspace, "echo x > .git/config && echo DID")
        .setup("mv ws/.git ws/real; ln -s real ws/.git")
        .or_refused(),
    sh("36: .git is a link, write its target", Workspace, "echo x > real/config && echo DID")
        .setup("mv ws/.git ws/real; ln -s real ws/.git")
        .or_refused(),
    sh("36: .git is a link, lead it elsewhere", Workspace, "ln -sfn src .git")
        .setup("mv ws/.git ws/real; ln -s real ws/.git")
        .or_refused(),
    sh("36: .git is a link, remove it", Workspace, "rm .git")
        .setup("mv ws/.git ws/real; ln -s real ws/.git")
        .or_refused(),
    sh("36: .git is a link, rename it", Workspace, "mv .git g")
        .setup("mv ws/.git ws/real; ln -s real ws/.git")
        .or_refused(),
    sh("36: .git is a link, rename its target", Workspace, "mv real r && echo DID")
        .setup("mv ws/.git ws/real; ln -s real ws/.git")
        .or_refused(),
    sh("36: .codex is a link to nothing, make its target", Workspace, "mkdir later && echo DID")
        .setup("rm -r ws/.codex; ln -s later ws/.codex")
        .or_refused(),
    sh("36: .codex is a link to the outside", Workspace, "echo x > .codex/canary")
        .setup("rm -r ws/.codex; ln -s ../out ws/.codex")
        .or_refused(),
    sh("36: .aws is a link, lead it elsewhere", Workspace, "rm -f .aws; ln -s src .aws")
        .setup("mv ws/.aws ws/real; ln -s real ws/.aws")
        .or_refused(),
    sh(
        "3.4: the workspace is a bare repository: configuration",
        Workspace,
        "echo x > config && echo DID",
    )
    .setup("mkdir ws/objects ws/refs ws/hooks; touch ws/HEAD ws/config"),
    sh(
        "3.4: the workspace is a bare repository: hooks",
        Workspace,
        "echo x > hooks/pre-commit && echo DID",
    )
    .setup("mkdir ws/objects ws/refs ws/hooks; touch ws/HEAD ws/config"),
    sh("37: .git opened by name", WorkspaceGit, "echo x > .git/config && mkdir .git/new")
        .works("ws/.git/new"),
    sh("37: the others stay closed", WorkspaceGit, "echo x > .codex/config.toml").denied(2),
];

#[rustfmt::skip]
pub const DENIES: &[Attempt] = &[
    sh("38: read a denied file", Denies, "cat key.pem").denied(1),
    sh("38: read in a denied folder", Denies, "cat secrets/key"),
    sh("38: list a denied folder", Denies, "ls secrets | grep key && echo DID"),
    sh("38: search everything", Denies, "grep -rs secret: . $WS /proc/self/root$WS"),
    sh(
        "38: copy everything",
        Denies,
        "mkdir copy; cp -r *.* secrets top copy; rm -rf copy/dir.env copy/link.env; \
         cat copy/key.pem copy/secrets/key copy/app.env",
    ),
    sh("38: pack everything", Denies, "tar cf - . 2>/dev/null | cat"),
    sh("38: write a denied file", Denies, "echo x > key.pem"),
    sh("38: remove a denied file", Denies, "rm -f key.pem"),
    sh("38: rename a denied file", Denies, "mv key.pem k; cat k"),
    sh("38: rename a denied folder", Denies, "mv secrets s; cat s/key"),
    sh("38: rename over a denied file", Denies, "mv a.txt key.pem"),
    sh("38: open it up", Denies, "chmod 777 key.pem secrets; cat key.pem secrets/key"),
    sh("39: through a link", Denies, "ln -s key.pem l; cat l"),
    sh("39: through a link to the folder", Denies, "ln -s secrets l; cat l/key"),
    sh("39: through /proc/self/root", Denies, "cat /proc/self/root$WS/key.pem"),
    sh("39: through /proc/1/root", Denies, "cat /proc/1/root$WS/key.pem").free(Free::Depends),
    sh("39: through /proc/self/cwd", Denies, "cat /proc/self/cwd/key.pem"),
    sh("39: through a hard link", Denies, "ln key.pem h; cat h"),
    sh("39: through a hard link into the folder", Denies, "ln secrets/key h; cat h"),
    sh("39: by a detour", Denies, "cat src/../key.pem secrets/open/../key"),
    sh("39: through the opened child", Denies, "cd secrets/open && cat ../key"),
    probe("39: by handle", Denies, "handle-read $WS/key.pem $WS").free(Free::Depends),
    probe("39: exchange with a denied file", Denies, "exchange $WS/key.pem $WS/a.txt"),
    sh("39: exchange, then read", Denies, "$PROBE exchange $WS/key.pem $WS/a.txt; cat a.txt"),
    sh("40: the opened child", Denies, "echo x > secrets/open/new && cat secrets/open/ok")
        .works("ws/secrets/open/new"),
    sh("40: rename the opened child", Denies, "mv secrets/open o && echo DID"),
    sh("41: make a denied path", Denies, "mkdir -p never/made && echo DID"),
    sh("41: make its parent", Denies, "mkdir never && echo DID"),
    sh("41: make its parent as a link", Denies, "ln -s src never && echo DID"),
    sh("41: rename something to its parent", Denies, "mv src never && echo DID"),
    sh("42: a pattern", Denies, "cat app.env").denied(1),
    sh("42: a pattern, deep", Denies, "cat deep/one/two/prod.env").denied(1),
    sh("42: a pattern, hidden", Denies, "cat .hidden.env").denied(1),
    sh("42: a pattern, ignored", Denies, "cat app.env")
        .setup("printf '*.env\\n' > ws/.gitignore")
        .denied(1),
    sh("42: rename a match", Denies, "mv app.env app; cat app"),
    sh("42: a hard link to a match", Denies, "ln app.env app; cat app"),
    sh("43: a link that matches", Denies, "cat link.env"),
    sh("43: its target", Denies, "cat target/plain"),
    sh("43: a folder that matches", Denies, "cat dir.env/inner; ls dir.env"),
    sh("43: rename a folder that matches", Denies, "mv dir.env d; cat d/inner"),
    sh("44: rename the parent of a match", Denies, "mv deep d; cat d/one/two/prod.env"),
    sh("44: rename the parent of a match, read it next", Denies, "mv deep/one o || mv deep d")
        .then("cat o/two/prod.env d/one/two/prod.env"),
    sh("44: rename the parent of a denied file, read it next", Denies, "mv top t")
        .then("cat t/private"),
    sh("44: exchange the parent of a denied file", Denies, "$PROBE exchange $WS/top $WS/src")
        .then("cat src/private"),
    sh("45: write a carve-out", Denies, "echo x > docs/readme").denied(2),
    sh("45: make in a carve-out", Denies, "echo x > top/docs/new").denied(2),
    sh("45: rename the parent of a carve-out, write it next", Denies, "mv top t")
        .then("echo x > t/docs/readme && echo DID"),
    sh("45: rename a carve-out", Denies, "mv docs d"),
    sh("45: read a carve-out", Denies, "cat docs/readme top/docs/readme > copy").works("ws/copy"),
    sh(
        "49: everything may be written",
        EverythingButDenied,
        "echo x > $OUT/new && echo x > .git/config",
    )
    .works("out/new"),
    sh("49: but not what is denied", EverythingButDenied, "cat key.pem"),
    sh("49: nor a denied folder", EverythingButDenied, "cat secrets/key"),
    sh("49: nor a pattern", EverythingButDenied, "cat app.env deep/one/two/prod.env"),
    sh("49: nor after renaming its parent", EverythingButDenied, "mv deep d")
        .then("cat d/one/two/prod.env"),
    sh("49: nor after renaming the workspace", EverythingButDenied, "cd /; mv $WS $WORLD/w")
        .then("cat $WORLD/w/key.pem")
        .or_refused(),
    sh("49: devices stay private", EverythingButDenied, "$PROBE open-read /dev/loop0")
        .free(Free::Depends),
];

#[rustfmt::skip]
pub const ROOTS: &[Attempt] = &[
    sh("26: TMPDIR=/", WorkspaceTemporary, "echo x > $OUT/canary")
        .env(&[("TMPDIR", "/")])
        .or_refused(),
    sh("26: TMPDIR above the workspace", WorkspaceTemporary, "echo x > $OUT/canary")
        .env(&[("TMPDIR", "$WORLD")])
        .or_refused(),
    sh("26: TMPDIR relative", WorkspaceTemporary, "echo x > $OUT/canary")
        .env(&[("TMPDIR", "../out")])
        .or_refused(),
    sh("26: TMPDIR with dots", WorkspaceTemporary, "echo x > $OUT/canary")
        .env(&[("TMPDIR", "$WORLD/tmp/..")])
        .or_refused(),
    sh("26: TMPDIR missing", WorkspaceTemporary, "mkdir -p $WORLD/none; echo x > $WORLD/none/x")
        .env(&[("TMPDIR", "$WORLD/none")])
        .or_refused(),
    sh("26: TMPDIR empty", WorkspaceTemporary, "echo x > $OUT/canary")
        .env(&[("TMPDIR", "")])
        .or_refused(),
    sh(
        "26: TMPDIR is a link that a command left in the workspace",
        WorkspaceTemporary,
        "echo x > $OUT/canary",
    )
    .setup("ln -s ../out ws/t")
    .env(&[("TMPDIR", "$WORLD/ws/t")])
    .or_refused(),
    sh(
        "26: TMPDIR below a link that a command left",
        WorkspaceTemporary,
        "echo x > $OUT/dir/inner",
    )
    .setup("ln -s ../out ws/t")
    .env(&[("TMPDIR", "$WORLD/ws/t/dir")])
    .or_refused(),
    sh("26: TMPDIR is .git", WorkspaceTemporary, "echo x > .git/config")
        .env(&[("TMPDIR", "$WORLD/ws/.git")])
        .or_refused(),
    sh("26: TMPDIR in .git", WorkspaceTemporary, "echo x > .git/hooks/sample")
        .env(&[("TMPDIR", "$WORLD/ws/.git/hooks")])
        .or_refused(),
    sh(
        "26: TMPDIR is where .git points to",
        WorkspaceTemporary,
        "echo x > real/config && echo DID",
    )
    .setup(POINTER)
    .env(&[("TMPDIR", "$WORLD/ws/real")])
    .or_refused(),
    sh(
        "26: TMPDIR holds where .git points to",
        WorkspaceTemporary,
        "echo x > sub/real/config && echo DID",
    )
    .setup("mv ws/.git ws/sub/real; echo 'gitdir: sub/real' > ws/.git")
    .env(&[("TMPDIR", "$WORLD/ws/sub")])
    .or_refused(),
    sh("26: TMPDIR is a file", WorkspaceTemporary, "echo x > $OUT/canary")
        .env(&[("TMPDIR", "$WORLD/out/canary")])
        .or_refused(),
    sh("26: TMPDIR as it should be", WorkspaceTemporary, "echo x > $TMPDIR/new")
        .env(&[("TMPDIR", "$WORLD/tmp")])
        .works("tmp/new"),
    sh(
        "26: TMPDIR replaced by a link, next command",
        WorkspaceTemporary,
        "rm -r sub && ln -s ../out sub",
    )
    .then("echo x > $OUT/canary")
    .env(&[("TMPDIR", "$WORLD/ws/sub")])
    .or_refused(),
    sh("a root in a root", NestedRoots, "echo x > sub/new").works("ws/sub/new"),
    sh("a root in a root is a link that a command left", NestedRoots, "echo x > $OUT/canary")
        .setup("rm -r ws/sub; ln -s ../out ws/sub")
        .or_refused(),
    sh(
        "a root in a root, replaced for the next command",
        NestedRoots,
        "rm -r sub && ln -s ../out sub",
    )
    .then("echo x > $OUT/canary")
    .or_refused(),
    sh("a root that is a link outside of all roots", TwoRoots, "echo x > $WORLD/two/new")
        .setup("mkdir elsewhere; rm -r two; ln -s elsewhere two")
        .works("elsewhere/new"),
    sh(
        "beside a root that is a link",
        TwoRoots,
        "echo x > $WORLD/elsewhere/../out/canary; rm $WORLD/two && ln -s out $WORLD/two",
    )
    .setup("mkdir elsewhere; rm -r two; ln -s elsewhere two")
    .then("echo x > $OUT/canary"),
    sh("a root that is missing grants nothing", TwoRoots, "mkdir $WORLD/two && echo DID")
        .setup("rm -r two"),
    sh("a root that is missing is no hindrance", TwoRoots, "echo x > new")
        .setup("rm -r two")
        .works("ws/new"),
];
