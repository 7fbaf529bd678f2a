/*
 * The working directory and the shell of a script. Both are checked when the step begins, because a deployment may have
 * added or removed them.
 */
import { realpath, stat } from 'node:fs/promises'
import { basename, delimiter, isAbsolute, join } from 'node:path'
import { isInside, isProgram } from '../../base/files.js'
import { StepFailure } from '../failure.js'
import { hasCode, reasonOf } from '../../base/errors.js'
import { interpreterOf, scriptTextOf, textOptionOf } from '../../proc/run.js'

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

/** What runs a script; null is `sh -c`. The notes are for the output: what svc changed or did not follow. */
export interface ScriptRunner {
  interpreter: string[] | null
  notes: string[]
}

/**
 * Returns what runs a script: the project's shell, else the interpreter that its first line names, else `sh`. Throws a
 * StepFailure that begins with `title` if the shell does not exist.
 */
export async function findRunner(
  script: string,
  { shell }: Pick<ScriptPlace, 'shell'>,
  { title, path }: { title: string; path: string | undefined }
): Promise<ScriptRunner> {
  const text = scriptTextOf(script)
  const notes = text === script ? [] : ['its line ends and byte order mark are those of Windows; it runs without them']
  const named = interpreterOf(text)
  const chosen = shell === 'sh' ? null : await findShell(shell, { title, path })
  if (named === null) return { interpreter: chosen === null ? null : [chosen, '-c'], notes }
  const ignored = (why: string): string => `its first line names "${named.program}", which is not used: ${why}`
  if (shell !== null) {
    const isSame = basename(shell) === basename(named.program)
    notes.push(...(isSame ? [] : [ignored(`the project's scriptShell is "${shell}"`)]))
    return { interpreter: chosen === null ? null : [chosen, '-c'], notes }
  }
  const option = textOptionOf(named.program)
  const program = option === null ? null : await find(named.program, path)
  if (option !== null && program !== null) return { interpreter: [program, ...named.words, option], notes }
  const why = option === null ? 'svc cannot give it a script as text' : 'it is not on this server'
  return { interpreter: null, notes: [...notes, ignored(`${why}; the script runs with sh`)] }
}

async function find(program: string, path: string | undefined): Promise<string | null> {
  const directories = (path ?? '').split(delimiter).filter(isAbsolute)
  const places = isAbsolute(program) ? [program] : directories.map(directory => join(directory, program))
  for (const place of places) if (await isProgram(place)) return place
  return null
}

async function findShell(
  shell: string | null,
  { title, path }: { title: string; path: string | undefined }
): Promise<string | null> {
  const found = shell === null ? null : await find(shell, path)
  if (shell === null || found !== null) return found
  const where = isAbsolute(shell) ? 'is not an executable file on this server' : 'is not in the PATH of this server'
  throw new StepFailure(
    `${title} did not run: the shell "${shell}" ${where}. Install it, or change the project's scriptShell`
  )
}
