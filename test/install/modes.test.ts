import t from 'tap'
import { groupUnder, modeUnder } from '../../lib/install/modes.js'

t.test('the policy comes before the umask, and the umask before the archive', async t => {
  const modes = { file: 0o640, directory: 0o2750 }
  for (const [rules, kind, given, expected] of [
    [{ umask: null }, 'file', 0o604, 0o604],
    [{ umask: null }, 'file', null, null],
    [{ umask: 0o027 }, 'file', 0o755, 0o750],
    [{ umask: 0o027 }, 'directory', null, 0o750],
    [{ umask: 0o077, modes }, 'file', 0o600, 0o640],
    [{ umask: 0o077, modes }, 'file', null, 0o640],
    [{ umask: null, modes }, 'file', 0o100, 0o750],
    [{ umask: null, modes: { file: 0o604, directory: null } }, 'file', 0o001, 0o705],
    [{ umask: null, modes }, 'directory', 0o700, 0o2750],
    [{ umask: 0o077, modes: { file: 0o644, directory: null } }, 'directory', 0o755, 0o700],
    [{ umask: 0o077, modes }, 'symlink', null, null]
  ] as const)
    t.equal(modeUnder(rules, kind, given), expected, `${JSON.stringify(rules)} ${kind} ${given?.toString(8)}`)
})

t.test('files and directories get the group of the policy, links do not', async t => {
  const modes = { file: null, directory: null, group: 0 }
  const kinds = ['file', 'directory', 'symlink'] as const
  t.strictSame(
    kinds.map(kind => groupUnder({ modes }, kind)),
    [0, 0, undefined]
  )
  t.strictSame(
    kinds.map(kind => groupUnder({ modes: { ...modes, group: null } }, kind)),
    [undefined, undefined, undefined]
  )
})
