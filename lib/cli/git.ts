import { execFile } from 'node:child_process'
import { oneLine } from '../base/one-line.js'
import { maxMessageLength } from '../model/deployment.js'
import { inheritedEnvironment } from '../proc/environment.js'

const limitMs = 3000

/** The subject line of the commit a directory is at, as the server takes it; undefined without git, or where nothing is committed yet. */
export async function commitSubject(
  directory: string,
  env: Readonly<Record<string, string | undefined>>
): Promise<string | undefined> {
  return await new Promise(resolve => {
    const options = { cwd: directory, env: inheritedEnvironment(env), timeout: limitMs }
    execFile('git', ['log', '-1', '--no-show-signature', '--format=%s'], options, (error, stdout) => {
      resolve(error === null ? cutToCharacters(oneLine(stdout.trim()), maxMessageLength) || undefined : undefined)
    })
  })
}

/** Whether git leaves a file out of a directory's repository; null: there is no git, or no repository. */
export async function isIgnoredByGit(
  directory: string, name: string, env: Readonly<Record<string, string | undefined>>
): Promise<boolean | null> {
  return await new Promise(resolve => {
    const options = { cwd: directory, env: { ...env }, timeout: limitMs }
    // 0: it is ignored, 1: it is not, 128: no repository. git-check-ignore(1)
    execFile('git', ['check-ignore', '--quiet', '--', name], options, error => {
      resolve(error === null ? true : error.code === 1 ? false : null)
    })
  })
}

/** Never between the halves of a surrogate pair. */
function cutToCharacters(text: string, length: number): string {
  return text.length <= length ? text : text.slice(0, length).replace(/[\ud800-\udbff]$/, '')
}
