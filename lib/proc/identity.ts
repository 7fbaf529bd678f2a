/*
 * The user of the system whose rights a project's work has (field `runAs`), and the command that takes these rights on.
 *
 * Names are resolved by `getent`, which asks what the system asks (files, LDAP, sssd); where it is missing, /etc/passwd
 * is read. Rights change only downwards, and only root can change them.
 */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { oneLine } from '../base/one-line.js'
import { invalid, Refusal } from '../base/refusal.js'

/** A user of the system. */
export interface Identity {
  name: string
  uid: number
  gid: number
  home: string
  shell: string
}

/** A user and the umask of what is made with that user's rights; null: the umask of svc. */
export interface Rights {
  identity: Identity
  umask: number | null
}

const run = promisify(execFile)
/** useradd(8): what the names of users look like on Linux. */
const userName = /^[a-z_][a-z0-9_.-]{0,31}\$?$/i
const lookupMs = 10_000
const systemPath = '/usr/bin:/bin:/usr/sbin:/sbin'

/** Whether this process may take on the rights of another user. */
export const maySwitchUser = (): boolean => process.platform === 'linux' && process.geteuid?.() === 0

/**
 * The user of this name. Refuses (400 naming `runAs`): svc does not run as root, the name is not one, no such user,
 * a user with the rights of root.
 */
export async function findIdentity(name: string): Promise<Identity> {
  const no = (why: string): Refusal => invalid('runAs', `"runAs" cannot be "${name}": ${why}`)
  if (!maySwitchUser()) throw no('svc does not run as root, so it cannot run anything as another user')
  if (!userName.test(name)) throw no('it is not the name of a user')
  const identity = parseEntry(await readEntry(name))
  if (identity === null || identity.name !== name) throw no('this machine does not know that user')
  if (identity.uid === 0) throw no('that user has the rights of root; choose one without them')
  return identity
}

/**
 * Whose rights the work of a project has: those of its user, or null for those of svc. Refuses as `findIdentity` and
 * `parseUmask`.
 */
export async function findRights({ runAs, umask }: { runAs: string | null; umask: string | null }): Promise<Rights | null> {
  if (runAs === null) return null
  return { identity: await findIdentity(runAs), umask: umaskOf({ umask }) }
}

/** Refuses (400 naming `runAs`) rights that cannot be taken on here: `setpriv` is missing, or svc lacks a capability. */
export async function tryRights(rights: Rights): Promise<void> {
  const [program = '', ...words] = withRights(['true'], rights, '/')
  try {
    await run(program, words, { timeout: lookupMs, env: { PATH: systemPath } })
  } catch (error) {
    const { stderr = '', message } = error as { stderr?: string; message: string }
    const why = oneLine(stderr.trim() || message).slice(0, 300)
    throw invalid('runAs', `"runAs" cannot be "${rights.identity.name}": svc cannot take on the rights of that user (${why})`)
  }
}

async function readEntry(name: string): Promise<string> {
  try {
    return (await run('getent', ['passwd', name], { timeout: lookupMs, env: { PATH: systemPath } })).stdout
  } catch (error) {
    // getent(1): 2 says that the key was not found.
    if ((error as { code?: unknown }).code === 2) return ''
    const lines = (await readFile('/etc/passwd', 'utf8')).split('\n')
    return lines.find(line => line.startsWith(`${name}:`)) ?? ''
  }
}

/** One line of passwd(5); null: it is not one. */
function parseEntry(line: string): Identity | null {
  const [name = '', , uid = '', gid = '', , home = '', shell = ''] = line.trimEnd().split(':')
  if (!/^\d+$/.test(uid) || !/^\d+$/.test(gid)) return null
  return { name, uid: Number(uid), gid: Number(gid), home: home || '/', shell: shell || '/bin/sh' }
}

/** Changes the directory with the new rights, for a path may lead where only svc may go. */
const enter = 'cd -- "$0" || exit 126; [ -z "$1" ] || umask "$1"; shift; exec "$@"'

/**
 * A command as it is run with other rights, in `directory`: user, group and supplementary groups of the identity, no
 * capability, and no way to gain rights by a set-user-ID program (no_new_privs). `setpriv` is part of util-linux.
 */
export function withRights(command: readonly string[], { identity, umask }: Rights, directory: string): string[] {
  const { name, gid } = identity
  const drop = ['setpriv', `--reuid=${name}`, `--regid=${gid}`, '--init-groups', '--inh-caps=-all', '--no-new-privs', '--']
  return [...drop, 'sh', '-c', enter, directory, umask === null ? '' : formatUmask(umask), ...command]
}

/** The variables that tell a program whose rights it has; login(1) sets the same. */
export function variablesOf({ name, home, shell }: Identity): Record<string, string> {
  return { USER: name, LOGNAME: name, HOME: home, SHELL: shell }
}

/** Octal, with four digits. */
export function formatUmask(umask: number): string {
  return umask.toString(8).padStart(4, '0')
}

/** The umask of a project, null if it has none. Refuses as `parseUmask`. */
export function umaskOf({ umask }: { umask: string | null }): number | null {
  return umask === null ? null : parseUmask(umask)
}

/** A umask as it is written: three or four octal digits. Refuses (400 naming `umask`) anything else. */
export function parseUmask(text: string): number {
  if (!/^0?[0-7]{3}$/.test(text)) throw invalid('umask', `"umask" cannot be "${text}": three octal digits are needed, such as 027`)
  return Number.parseInt(text, 8)
}
