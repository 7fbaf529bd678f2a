/*
 * The system user whose rights a project uses (field `runAs`), and the command that switches to these rights.
 *
 * `getent` resolves names, since it uses the same sources as the system (files, LDAP, sssd). If it is missing,
 * /etc/passwd is read. Rights can only be reduced, and only root can change them.
 */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { oneLine } from '../../base/text.js'
import { invalid, Refusal } from '../../base/errors.js'

/** A user of the system. */
export interface Identity {
  name: string
  uid: number
  gid: number
  home: string
  shell: string
}

/** A user, and the umask for files created with that user's rights; null means the umask of svc. */
export interface Rights {
  identity: Identity
  umask: number | null
}

const run = promisify(execFile)
/** Pattern of user names on Linux (useradd(8)). */
const userName = /^[a-z_][a-z0-9_.-]{0,31}\$?$/i
const lookupMs = 10_000
const systemPath = '/usr/bin:/bin:/usr/sbin:/sbin'

/** Whether the kernel leaves a process traceable by its new user when it gives up the rights of root (proc(5)). */
function isTraceable(): boolean {
  try {
    return readFileSync('/proc/sys/fs/suid_dumpable', 'latin1').trim() === '1'
  } catch {
    return false
  }
}

/** Whether this process can switch to the rights of another user. */
export const maySwitchUser = (): boolean => process.platform === 'linux' && process.geteuid?.() === 0

/**
 * Returns the user with this name. Refuses (400 naming `runAs`) if svc does not run as root, if the name is invalid or
 * unknown, or if the user has the rights of root.
 */
export async function findIdentity(name: string): Promise<Identity> {
  const no = (why: string): Refusal => invalid('runAs', `"runAs" cannot be "${name}": ${why}`)
  if (!maySwitchUser()) throw no('svc does not run as root, so it cannot run anything as another user')
  if (isTraceable()) {
    const how = 'Set it to 2 ("sysctl fs.suid_dumpable=2")'
    throw no(`with the kernel setting fs.suid_dumpable = 1, that user could trace the processes of svc. ${how}`)
  }
  if (!userName.test(name)) throw no('it is not a valid user name')
  const identity = parseEntry(await readEntry(name, 'passwd'))
  if (identity === null || identity.name !== name) throw no('no such user on this machine')
  if (identity.uid === 0) throw no('that user has the rights of root. Choose another user')
  return identity
}

/**
 * Returns the rights for the work of a project: those of its user, or null for those of svc. Refuses like
 * `findIdentity` and `parseUmask`.
 */
export async function findRights({
  runAs,
  umask
}: {
  runAs: string | null
  umask: string | null
}): Promise<Rights | null> {
  if (runAs === null) return null
  return { identity: await findIdentity(runAs), umask: umaskOf({ umask }) }
}

/** Refuses (400 naming `runAs`) rights that svc cannot switch to: `setpriv` is missing, or svc lacks a capability. */
async function tryRights(rights: Rights): Promise<void> {
  const [program = '', ...words] = withRights(['true'], rights, '/')
  try {
    await run(program, words, { timeout: lookupMs, env: { PATH: systemPath } })
  } catch (error) {
    const { stderr = '', message } = error as { stderr?: string; message: string }
    const why = oneLine(stderr.trim() || message).slice(0, 300)
    throw invalid('runAs', `"runAs" cannot be "${rights.identity.name}": svc cannot switch to that user (${why})`)
  }
}

/** Refuses (400 naming `runAs` or `umask`) rights that svc cannot take on here, before they are stored. */
export async function checkRights(given: { runAs: string | null; umask: string | null }): Promise<void> {
  umaskOf(given)
  const rights = await findRights(given)
  if (rights !== null) await tryRights(rights)
}

/**
 * Returns the number of a group, given by its name or number, that a project's user can give to files; `runAs` is null
 * for the user of svc. Refuses (`conflict`, group_unusable) an unknown group, and one that the user is not in.
 */
export async function findGroup(group: string, runAs: string | null): Promise<number> {
  const no = (why: string): Refusal =>
    new Refusal('conflict', 'group_unusable', `Nothing was changed: cannot give files the group "${group}": ${why}`)
  const [, , number = ''] = (await readEntry(group, 'group')).trimEnd().split(':')
  const gid = Number(/^\d+$/.test(group) ? group : number || Number.NaN)
  if (Number.isNaN(gid)) throw no('no such group on this machine. Create it, or change the policy "group"')
  if (!(await groupsOf(runAs)).includes(gid) && (runAs !== null || process.geteuid?.() !== 0)) {
    const user = runAs === null ? 'the user that svc runs as' : `the user "${runAs}"`
    throw no(`${user} is not in it. Add the user to the group, or change the policy "group"`)
  }
  return gid
}

/** Returns the groups of a user; null: of this process. */
async function groupsOf(runAs: string | null): Promise<number[]> {
  if (runAs === null)
    return [...(process.getgroups?.() ?? []), ...(process.getegid === undefined ? [] : [process.getegid()])]
  const { stdout } = await run('id', ['-G', '--', runAs], { timeout: lookupMs, env: { PATH: systemPath } })
  return stdout.trim().split(' ').map(Number)
}

async function readEntry(name: string, database: 'passwd' | 'group'): Promise<string> {
  try {
    return (await run('getent', [database, name], { timeout: lookupMs, env: { PATH: systemPath } })).stdout
  } catch (error) {
    // Exit code 2 of getent(1): key not found.
    if ((error as { code?: unknown }).code === 2) return ''
    const lines = (await readFile(`/etc/${database}`, 'utf8').catch(() => '')).split('\n')
    return lines.find(line => line.startsWith(`${name}:`)) ?? ''
  }
}

/** Parses one line of passwd(5). Returns null if it is invalid. */
function parseEntry(line: string): Identity | null {
  const [name = '', , uid = '', gid = '', , home = '', shell = ''] = line.trimEnd().split(':')
  if (!/^\d+$/.test(uid) || !/^\d+$/.test(gid)) return null
  return { name, uid: Number(uid), gid: Number(gid), home: home || '/', shell: shell || '/bin/sh' }
}

/** Changes the directory after the rights: the path may lead to a directory that only svc may enter. */
const enter = 'cd -- "$0" || exit 126; [ -z "$1" ] || umask "$1"; shift; exec "$@"'

/**
 * Returns a command that runs `command` with other rights, in `directory`: user, group and supplementary groups of the
 * identity, no capabilities, and no way to gain rights through a set-user-ID program (no_new_privs). `setpriv` is part
 * of util-linux.
 */
export function withRights(command: readonly string[], { identity, umask }: Rights, directory: string): string[] {
  const { name, gid } = identity
  const drop = [
    'setpriv',
    `--reuid=${name}`,
    `--regid=${gid}`,
    '--init-groups',
    '--inh-caps=-all',
    '--no-new-privs',
    '--'
  ]
  return [...drop, 'sh', '-c', enter, directory, umask === null ? '' : formatUmask(umask), ...command]
}

/** Returns the variables that tell a program its user; login(1) sets the same ones. */
export function variablesOf({ name, home, shell }: Identity): Record<string, string> {
  return { USER: name, LOGNAME: name, HOME: home, SHELL: shell }
}

/** Formats a umask in octal, with four digits. */
export function formatUmask(umask: number): string {
  return umask.toString(8).padStart(4, '0')
}

/** Returns the umask of a project, or null if it does not set one. Refuses like `parseUmask`. */
export function umaskOf({ umask }: { umask: string | null }): number | null {
  return umask === null ? null : parseUmask(umask)
}

/** Parses a umask: three or four octal digits. Refuses (400 naming `umask`) anything else. */
export function parseUmask(text: string): number {
  if (!/^0?[0-7]{3}$/.test(text))
    throw invalid('umask', `"umask" cannot be "${text}": it must have three octal digits, such as 027`)
  return Number.parseInt(text, 8)
}
