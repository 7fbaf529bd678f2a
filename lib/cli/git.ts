import { execFile } from 'node:child_process'
import { inheritedEnvironment } from '../proc/environment.js'

/** What git says of the commit that a directory is at. Unknown: null. */
export interface GitState {
  commit: string | null
  /** Null in a detached HEAD, as most CI systems have it. */
  branch: string | null
  tag: string | null
  author: string | null
  subject: string | null
  /** Whether tracked files differ from the commit. */
  dirty: boolean | null
  /** The address of the remote "origin", or of the first one, as it is configured. */
  repository: string | null
}

type Environment = Readonly<Record<string, string | undefined>>

const limitMs = 3000
const maxOutputBytes = 16 * 1024 * 1024

/** Asks git, in three processes at the same time. Without git, or outside a repository, everything is null. */
export async function readGit(directory: string, env: Environment): Promise<GitState> {
  const ask = (words: readonly string[]): Promise<string | null> => git(words, directory, env)
  const [head, changes, remotes] = await Promise.all([
    ask(['log', '-1', '--no-show-signature', '--encoding=UTF-8', '--decorate=full',
      '--decorate-refs=HEAD', '--decorate-refs=refs/heads', '--decorate-refs=refs/tags', '--format=%H%x00%an%x00%s%x00%D']),
    ask(['status', '--porcelain', '--untracked-files=no', '--ignore-submodules=dirty']),
    ask(['config', '--null', '--get-regexp', '^remote\\..*\\.url$'])
  ])
  const [commit, author, subject, names = ''] = (head ?? '').trimEnd().split('\0')
  const refs = names.split(', ')
  return {
    commit: commit || null,
    branch: afterPrefix(refs, 'HEAD -> refs/heads/'),
    tag: afterPrefix(refs, 'tag: refs/tags/'),
    author: author || null,
    subject: subject || null,
    dirty: head === null || changes === null ? null : changes.trim() !== '',
    repository: remoteOf(remotes ?? '')
  }
}

/** The output of git; null if it fails. */
async function git(words: readonly string[], directory: string, env: Environment): Promise<string | null> {
  // No lock of the index is taken, and no program of the repository's configuration is run.
  const quiet = { ...inheritedEnvironment(env), GIT_OPTIONAL_LOCKS: '0' }
  const options = { cwd: directory, env: quiet, timeout: limitMs, maxBuffer: maxOutputBytes, windowsHide: true }
  return await new Promise(resolve => {
    execFile('git', ['-c', 'core.fsmonitor=false', ...words], options, (error, stdout) => resolve(error === null ? stdout : null))
  })
}

function afterPrefix(refs: readonly string[], prefix: string): string | null {
  return refs.find(ref => ref.startsWith(prefix))?.slice(prefix.length) ?? null
}

/** `remote.origin.url\nhttps://…` for each remote, separated by NUL. */
function remoteOf(remotes: string): string | null {
  const entries = remotes.split('\0').map(entry => entry.split('\n'))
  const [, address] = entries.find(([name]) => name === 'remote.origin.url') ?? entries[0] ?? []
  return address || null
}

/** Whether git leaves a file out of a directory's repository; null: there is no git, or no repository. */
export async function isIgnoredByGit(
  directory: string, name: string, env: Environment
): Promise<boolean | null> {
  return await new Promise(resolve => {
    const options = { cwd: directory, env: { ...env }, timeout: limitMs }
    // 0: it is ignored, 1: it is not, 128: no repository. git-check-ignore(1)
    execFile('git', ['check-ignore', '--quiet', '--', name], options, error => {
      resolve(error === null ? true : error.code === 1 ? false : null)
    })
  })
}
