import { execFile } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Provenance } from '../../model/provenance.js'
import { inheritedEnvironment } from '../../core/proc/environment.js'

/**
 * The facts that git reports about the commit of a directory; null if unknown. `branch` is null for a detached HEAD,
 * which most CI systems use. `repository` is the remote "origin", else the first remote, as configured, including
 * credentials.
 */
export type GitState = Pick<Provenance, 'commit' | 'branch' | 'tag' | 'author' | 'subject' | 'dirty' | 'repository'>

type Environment = Readonly<Record<string, string | undefined>>

const limitMs = 3000
const maxOutputBytes = 16 * 1024 * 1024

const nothing: GitState = {
  commit: null,
  branch: null,
  tag: null,
  author: null,
  subject: null,
  dirty: null,
  repository: null
}

/** Reads the state from git, in three concurrent processes. Without git, or outside of a repository, all is null. */
export async function readGit(directory: string, env: Environment): Promise<GitState> {
  if (!mayBeRepository(directory, env)) return nothing
  const ask = (words: readonly string[]): Promise<string | null> => git(words, directory, env)
  const [head, changes, remotes] = await Promise.all([
    ask([
      'log',
      '-1',
      '--no-show-signature',
      '--encoding=UTF-8',
      '--decorate=full',
      '--decorate-refs=HEAD',
      '--decorate-refs=refs/heads',
      '--decorate-refs=refs/tags',
      '--format=%H%x00%an%x00%s%x00%D'
    ]),
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

/** Whether git may find a repository. To start its processes takes longer than the rest of a small push. */
function mayBeRepository(directory: string, env: Environment): boolean {
  if (env['GIT_DIR']) return true
  try {
    for (let at = realpathSync(directory), above = ''; at !== above; at = dirname((above = at))) {
      // A bare repository has a file HEAD.
      if (existsSync(join(at, '.git')) || existsSync(join(at, 'HEAD'))) return true
    }
  } catch {
    // There is no such directory.
  }
  return false
}

/** Runs git. Returns its output, or null if it fails. */
async function git(words: readonly string[], directory: string, env: Environment): Promise<string | null> {
  // Takes no lock of the index, and runs no program from the configuration of the repository.
  const quiet = { ...inheritedEnvironment(env), GIT_OPTIONAL_LOCKS: '0' }
  const options = { cwd: directory, env: quiet, timeout: limitMs, maxBuffer: maxOutputBytes, windowsHide: true }
  return await new Promise(resolve => {
    execFile('git', ['-c', 'core.fsmonitor=false', ...words], options, (error, stdout) =>
      resolve(error === null ? stdout : null)
    )
  })
}

function afterPrefix(refs: readonly string[], prefix: string): string | null {
  return refs.find(ref => ref.startsWith(prefix))?.slice(prefix.length) ?? null
}

/** Parses `remote.origin.url\nhttps://…` entries, separated by NUL. */
function remoteOf(remotes: string): string | null {
  const entries = remotes.split('\0').map(entry => entry.split('\n'))
  const [, address] = entries.find(([name]) => name === 'remote.origin.url') ?? entries[0] ?? []
  return address || null
}

/** Returns whether git ignores a file of a directory, or null without git or a repository. */
export async function isIgnoredByGit(directory: string, name: string, env: Environment): Promise<boolean | null> {
  return await new Promise(resolve => {
    const options = { cwd: directory, env: { ...env }, timeout: limitMs }
    // Exit codes: 0 ignored, 1 not ignored, 128 no repository. See git-check-ignore(1).
    execFile('git', ['check-ignore', '--quiet', '--', name], options, error => {
      resolve(error === null ? true : error.code === 1 ? false : null)
    })
  })
}
