/*
 * Where a script runs, and by which shell: both are checked when the step begins, since a deployment may have brought or
 * removed them.
 */
import { constants } from 'node:fs'
import { access, realpath, stat } from 'node:fs/promises'
import { delimiter, isAbsolute, join } from 'node:path'
import { isInside } from '../base/paths.js'
import { StepFailure } from './failure.js'

/** What the project says of the place, and what is known of the target. */
export interface ScriptPlace {
  /** The target. */
  target: string
  /** Below the target; null: the target itself. */
  directory: string | null
  /** An absolute path, or a name that is looked for in PATH; null: `sh`. */
  shell: string | null
  /** Nothing was ever deployed: the directory cannot be there before the files are. */
  isFirst: boolean
}

/**
 * Returns the directory in which a script runs. Before the files of a first deployment have arrived, that is the target
 * itself if the directory is missing; `isPlain` says so. Throws a sentence that begins with `title`.
 */
export async function workingDirectory(
  { target, directory, isFirst }: ScriptPlace, { title, isBeforeFiles }: { title: string; isBeforeFiles: boolean }
): Promise<{ path: string; isPlain: boolean }> {
  if (directory === null) return { path: target, isPlain: false }
  const path = join(target, directory)
  const no = (why: string): StepFailure => new StepFailure(`${title} did not run: its working directory "${directory}" ${why}`)
  const real = await realpath(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw no(`cannot be used (${error.code})`)
    return null
  })
  if (real === null) {
    if (isBeforeFiles && isFirst) return { path: target, isPlain: true }
    throw no('is not in the target')
  }
  if (!isInside(await realpath(target), real)) throw no('leads out of the target')
  if (!(await stat(real)).isDirectory()) throw no('is not a directory')
  return { path: real, isPlain: false }
}

/** Returns the shell's path, or `sh`. Throws a sentence that begins with `title` when there is no such program. */
export async function findShell({ shell }: Pick<ScriptPlace, 'shell'>, { title, path }: { title: string; path: string | undefined }): Promise<string | null> {
  if (shell === null || shell === 'sh') return null
  const places = isAbsolute(shell) ? [shell] : (path ?? '').split(delimiter).filter(isAbsolute).map(directory => join(directory, shell))
  for (const place of places) if (await isProgram(place)) return place
  const where = isAbsolute(shell) ? 'is not an executable file on this server' : 'is not in the PATH of this server'
  throw new StepFailure(`${title} did not run: the shell "${shell}" ${where}. Install it, or change the project's scriptShell`)
}

async function isProgram(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => null)
  return found?.isFile() === true && access(path, constants.X_OK).then(() => true, () => false)
}
