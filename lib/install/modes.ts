/*
 * Permission bits and group of what svc puts in place: those of the archive and of the process, unless the project says
 * otherwise.
 */
import type { Item } from './plan.js'

/** What the policy of a project says about the permissions of its files; null: nothing. */
export interface ModePolicy {
  file: number | null
  /** Of directories that svc makes. Those that exist keep theirs. */
  directory: number | null
  /** The group of both; absent or null: that of the process. */
  group?: number | null
}

/** The rules for permissions: the project's own umask, if it has one, and its policy. */
export interface ModeRules {
  umask: number | null
  modes?: ModePolicy | undefined
}

const read = 0o444
const execute = 0o111
const fileDefault = 0o666
const directoryDefault = 0o777

/** Returns the permission bits of an entry; null: the umask of the process decides. `given`: those of the archive. */
export function modeUnder({ umask, modes }: ModeRules, kind: Item['kind'], given: number | null): number | null {
  const own = (kind === 'directory' ? modes?.directory : modes?.file) ?? null
  if (kind === 'symlink') return given
  if (own !== null) return kind === 'file' && ((given ?? 0) & execute) !== 0 ? own | ((own & read) >> 2) : own
  return umask === null ? given : (given ?? (kind === 'directory' ? directoryDefault : fileDefault)) & ~umask
}

/** Returns the group of an entry; undefined: that of the process. The group of a link has no meaning. */
export function groupUnder({ modes }: Pick<ModeRules, 'modes'>, kind: Item['kind']): number | undefined {
  return kind === 'symlink' ? undefined : (modes?.group ?? undefined)
}
