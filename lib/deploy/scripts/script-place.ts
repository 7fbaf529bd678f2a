/*
 * The working directory and the shell of a script. Both are checked when the step begins, because a deployment may have
 * added or removed them.
 */
import { realpath, stat } from 'node:fs/promises'
import { delimiter, isAbsolute, join } from 'node:path'
import { isInside } from '../../base/paths.js'
import { StepFailure } from '../failure.js'
import { isProgram } from '../../base/is-program.js'
import { hasCode, reasonOf } from '../../base/system-error.js'

/** The project's settings for its scripts, and the state of the target. */
export interface ScriptPlace {
  target: string
  /** Path below the target, or null for the target itself. */
  directory: string | null
  /** An absolute path, or a name that is searched in PATH. Null means `sh`. */
  shell: string | null
  /** Whether nothing has been deployed before, so that the directory may not exist yet. */
  isFirst: boolean
}

/**
 * Returns the directory in which a script runs. If it does not exist before the first deployment's files, that is the
 * target itself, and `isPlain` is true. Throws a StepFailure whose sentence begins with `title`.
 */
export async function workingDirectory(
  { target, directory, isFirst }: ScriptPlace,
  { title, isBeforeFiles }: { title: string; isBeforeFiles: boolean }
): Promise<{ path: string; isPlain: boolean }> {
  if (directory === null) return { path: target, isPlain: false }
  const path = join(target, directory)
  const no = (why: string): StepFailure =>
    new StepFailure(`${title} did not run: its working directory "${directory}" ${why}`)
  const real = await realpath(path).catch((error: unknown) => {
    if (!hasCode(error, 'ENOENT', 'ENOTDIR')) throw no(`cannot be used: ${reasonOf(error)}`)
    return null
  })
  if (real === null) {
    if (isBeforeFiles && isFirst) return { path: target, isPlain: true }
    throw no('does not exist in the target')
  }
  if (!isInside(await realpath(target), real)) throw no('leads outside the target')
  if (!(await stat(real)).isDirectory()) throw no('is not a directory')
  return { path: real, isPlain: false }
}

/**
 * Returns the path of the shell, or null for `sh`. Throws a StepFailure that begins with `title` if it does not exist.
 */
export async function findShell(
  { shell }: Pick<ScriptPlace, 'shell'>,
  { title, path }: { title: string; path: string | undefined }
): Promise<string | null> {
  if (shell === null || shell === 'sh') return null
  const places = isAbsolute(shell)
    ? [shell]
    : (path ?? '')
        .split(delimiter)
        .filter(isAbsolute)
        .map(directory => join(directory, shell))
  for (const place of places) if (await isProgram(place)) return place
  const where = isAbsolute(shell) ? 'is not an executable file on this server' : 'is not in the PATH of this server'
  throw new StepFailure(
    `${title} did not run: the shell "${shell}" ${where}. Install it, or change the project's scriptShell`
  )
}
