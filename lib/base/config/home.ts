/*
 * The data directory: its location, its layout, and its config.json. The server (adminToken) and the client (serverUrl,
 * token and other keys of §2.13) share config.json. Two processes may write it at the same time, so a write takes a
 * lock, reads the file, changes it, and replaces it with a rename. Keys that this version does not know are kept.
 */

import { constants, existsSync } from 'node:fs'
// Imported as a whole: `statfs` does not exist in every supported version of Node, and a missing named export would
// keep this module from loading.
import fs from 'node:fs/promises'
import { access, lstat, realpath, rmdir, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { userHome } from '../runtime.js'
import { hasCode, isDenied, isDiskFull, reasonOf, Refusal, spaceCure } from '../errors.js'
import { closest, oneLine, readText } from '../text.js'
import { type Looseness, loosenessOf, looseParentOf, makeDirectories, replaceFile, trustedUsers } from '../files.js'
import { parseJsonObject, withLock } from './files.js'

/** Environment variables, by name. */
export type Environment = Readonly<Record<string, string | undefined>>

/** The absolute paths of a data directory. */
export interface Home {
  directory: string
  configFile: string
  database: string
  /** The key that encrypts the secrets of projects. */
  variablesKey: string
  /** The directory of the keys that sign checkpoints of the audit log. */
  keys: string
  /** Archives, outputs and manifests: `<deployId>.zip`, `.log`, `.manifest`. */
  deployments: string
  /** Uploads and other temporary files. */
  tmp: string
  /** Exists after a restore, until the server has begun another history for its nodes. */
  restored: string
}

/** The directory of the agent of a hub, within its data directory. */
export const nodeName = 'node'
/** The name of `Home.restored`. */
export const restoredName = 'svc.restored'
/** The prefix of a directory with the files that a restore has replaced. */
export const beforeRestorePrefix = 'before-restore-'
/** Whether an entry of a data directory is that of a restore, unfinished or finished. */
export const isOfRestore = (name: string): boolean => /^(\.restore|before-restore-)/i.test(name)

/** The known keys of config.json. Unknown keys are kept. */
export interface GlobalConfig {
  adminToken?: string
  /** The ADMIN_TOKEN that `serve --pm2` was started with. It is stored here because pm2 itself must not get a token. */
  supervisedToken?: string
  serverUrl?: string
  /** The admin token for operations commands (§4.13). */
  token?: string
  /** Deploy tokens by `projectId` or `projectId:<env>`. */
  projectToken?: Record<string, string>
  /** Admin tokens of servers other than that of `token`, by origin (`svc login`). */
  adminTokens?: Record<string, string>
  /** The only origin that `token`, or the project's token, may be sent to (base/config/client-config.ts). */
  tokenOrigin?: string
  projectTokenOrigin?: Record<string, string>
  telemetryInstanceId?: string
  telemetryEndpoint?: string
  telemetryEnabled?: boolean
  [key: string]: unknown
}

const directoryMode = 0o700
const secretMode = 0o600

/**
 * Returns the location of the data directory: `SVC_HOME`, or `~/.svc` by default. `SVC_HOME` may be relative to `cwd`,
 * or begin with `~/` for the user's home directory.
 */
export function locateHome(env: Environment, cwd: string = process.cwd()): Home {
  const wanted = env['SVC_HOME'] || '~/.svc'
  const directory = /^~(?=$|[\\/])/.test(wanted) ? join(userHome(), wanted.slice(1)) : resolve(cwd, wanted)
  return {
    directory,
    configFile: join(directory, 'config.json'),
    database: join(directory, 'svc.db'),
    variablesKey: join(directory, 'variables.key'),
    keys: join(directory, 'keys'),
    deployments: join(directory, 'deployments'),
    tmp: join(directory, 'tmp'),
    restored: join(directory, restoredName)
  }
}

/**
 * Creates the missing parts of the data directory, accessible to the owner only, and returns the directories it
 * created. An existing directory keeps its mode. Refuses a data directory that is a file (`home_not_a_directory`), is
 * not writable (`home_not_writable`), or that other users could change (`unsafe_home`).
 */
export async function ensureHome(home: Home): Promise<string[]> {
  // Its /tmp is that of everybody.
  if (dirname(home.directory) === home.directory)
    throw unusable(home.directory, 'home_not_writable', { why: 'it is the root of the file system', cause: undefined })
  const made: string[] = []
  for (const directory of [home.directory, home.deployments, home.tmp]) {
    if (await ensureDirectory(directory)) made.push(directory)
  }
  await refuseLooseHome(home.directory).catch(async error => {
    for (const directory of made.reverse()) await rmdir(directory).catch(() => {})
    throw error
  })
  return made
}

/** Creates the directory if it is missing. Returns whether it was created. */
async function ensureDirectory(directory: string): Promise<boolean> {
  try {
    const made = await makeDirectories(directory, directoryMode)
    await access(directory, constants.R_OK | constants.W_OK | constants.X_OK)
    return made !== undefined
  } catch (error) {
    throw await refuseDirectory(directory, error)
  }
}

async function refuseDirectory(directory: string, error: unknown): Promise<unknown> {
  const file = await findFile(directory)
  if (file !== null) return unusable(directory, 'home_not_a_directory', { why: `"${file}" is a file`, cause: error })
  if (hasCode(error, 'EROFS')) return unusable(directory, 'home_not_writable', { why: reasonOf(error), cause: error })
  if (!isDenied(error)) return noSpaceFor(directory, error) ?? error
  const owner = await otherOwnerOf(directory)
  const why = `${reasonOf(error)}${owner === null ? '' : `: ${owner}`}`
  const isThere = (await stat(directory).catch(() => null)) !== null
  return unusable(directory, 'home_not_writable', { why, cure: isThere ? cureOfOwner : undefined, cause: error })
}

const cureOfOwner = 'Run svc as its owner, or give it to this user (chown)'

/** Returns that another user owns the file, as part of a sentence; null if this user owns it. */
async function otherOwnerOf(path: string): Promise<string | null> {
  const found = await stat(path).catch(() => null)
  const own = process.getuid?.()
  if (found === null || own === undefined || found.uid === own) return null
  return `it belongs to the user ${found.uid}, this is ${own}`
}

/** Returns the refusal of a failed start if the cause is a full disk; null for any other error. */
export function noSpaceFor(directory: string, error: unknown): Refusal | null {
  const isFull = isDiskFull(error) || (error instanceof Refusal && error.code === 'disk_full')
  if (!isFull) return null
  const why = reasonOf(isDiskFull(error) ? error : { code: 'ENOSPC' })
  return unusable(directory, 'no_space', { why, cure: spaceCure(error), cause: error })
}

function unusable(
  directory: string,
  code: string,
  { why, cure, cause }: { why: string; cure?: string | undefined; cause: unknown }
): Refusal {
  const next = cure === undefined ? 'Choose' : `${cure}, or choose`
  const sentence = `Cannot use the data directory "${directory}": ${why}. ${next} another with SVC_HOME`
  return new Refusal('unavailable', code, sentence, { cause })
}

/** Returns a warning if root runs svc on the directory of another user; null otherwise. */
export async function warningOfRoot({ directory }: Pick<Home, 'directory'>): Promise<string | null> {
  if (process.getuid?.() !== 0) return null
  const { uid } = await stat(directory)
  if (uid === 0) return null
  return `svc runs as root, but the data directory "${directory}" belongs to the user ${uid}. Run svc as that user: it cannot read files that root creates`
}

/** Returns the part of the path that is a file instead of a directory, or null if there is none. */
async function findFile(path: string): Promise<string | null> {
  for (let part = path; ; part = dirname(part)) {
    const found = await stat(part).catch(() => null)
    if (found !== null) return found.isDirectory() ? null : part
    if (part === dirname(part)) return null
  }
}

/**
 * Reads the global configuration; `{}` if the file does not exist. Refuses a broken file (`broken_config`) with its
 * path and line. Refuses a file that other users could change (`unsafe_home`), because it contains tokens and the
 * server that they are sent to. Refuses a file that cannot be read (`config_unreadable`).
 */
export async function readConfig(home: Pick<Home, 'configFile'>): Promise<GlobalConfig> {
  const text = await readConfigText(home.configFile)
  if (text !== '') await refuseLooseHome(dirname(home.configFile))
  const config = parseJsonObject(text, home.configFile)
  for (const [key, rule] of Object.entries(configRules)) {
    if (config[key] === undefined || rule.holds(config[key])) continue
    const sentence = `Cannot read "${home.configFile}": "${key}" must be ${rule.is}`
    throw new Refusal('invalid', 'broken_config', sentence, { field: key })
  }
  return config
}

/** Returns a sentence for each key that is none, but nearly one. Others may be of a later version. */
export function keyWarnings(config: GlobalConfig, path: string): string[] {
  const known = Object.keys(configRules)
  return Object.keys(config).flatMap(key => {
    const meant = known.includes(key) ? undefined : closest(key, known)
    return meant === undefined ? [] : [`"${path}" has the unknown key "${oneLine(key)}". Did you mean "${meant}"?`]
  })
}

const isText = (value: unknown): boolean => typeof value === 'string'
const isTextMap = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.values(value).every(isText)

const configRules: Record<string, { is: string; holds(value: unknown): boolean }> = {
  adminToken: { is: 'a string', holds: isText },
  supervisedToken: { is: 'a string', holds: isText },
  serverUrl: { is: 'a string', holds: isText },
  token: { is: 'a string', holds: isText },
  projectToken: { is: 'an object of strings', holds: isTextMap },
  adminTokens: { is: 'an object of strings', holds: isTextMap },
  tokenOrigin: { is: 'a string', holds: isText },
  projectTokenOrigin: { is: 'an object of strings', holds: isTextMap },
  telemetryInstanceId: { is: 'a string', holds: isText },
  telemetryEndpoint: { is: 'a string', holds: isText },
  telemetryEnabled: { is: 'true or false', holds: value => typeof value === 'boolean' }
}

async function readConfigText(path: string): Promise<string> {
  try {
    return await readText(path)
  } catch (cause) {
    if (cause instanceof Refusal) throw cause
    // ENOTDIR: a HOME like /dev/null, as some CI systems set it.
    if (hasCode(cause, 'ENOENT', 'ENOTDIR')) return ''
    if (!isDenied(cause) && !hasCode(cause, 'EISDIR')) throw cause
    const owner = await otherOwnerOf(path)
    const why = `${reasonOf(cause)}${owner === null ? '' : `: ${owner}`}`
    const cure = isDenied(cause) ? cureOfOwner : 'Move it away'
    throw new Refusal('unavailable', 'config_unreadable', `Cannot read "${path}": ${why}. ${cure}`, { cause })
  }
}

/**
 * Changes the global configuration and returns the result. `change` gets the current contents and modifies them; a key
 * set to undefined is removed. The file is replaced atomically, with mode 0600. Refuses a broken file, which stays as
 * it is; a file that another process keeps locked (`file_locked`); and a full disk (`disk_full`).
 */
export async function writeConfig(
  home: Pick<Home, 'directory' | 'configFile'>,
  change: (config: GlobalConfig) => void
): Promise<GlobalConfig> {
  await ensureDirectory(home.directory)
  return withLock(home.configFile, async () => {
    const config = await readConfig(home)
    change(config)
    await replaceFile(home.configFile, `${JSON.stringify(config, null, 2)}\n`, secretMode)
    return config
  }).catch((error: unknown) => {
    if (!isDiskFull(error)) throw error
    const sentence = `Cannot write "${home.configFile}": ${reasonOf(error)}. Nothing was changed. ${spaceCure(error)} and try again`
    throw new Refusal('unavailable', 'disk_full', sentence, { cause: error })
  })
}

/** The name of the file that marks the data directory of a hub (cluster-file.ts). */
export const clusterFileName = 'cluster.json'

/** Whether a data directory is a hub of a cluster. */
export function isHub(directory: string): boolean {
  return existsSync(join(directory, clusterFileName))
}

/** Refuses (`is_hub`) to use the directory of a hub as that of a server alone: its database would differ from the others. */
export function refuseHub(directory: string): void {
  if (!isHub(directory)) return
  const sentence = `"${directory}" is a hub of a cluster. Start it with "svc serve --store etcd:…", or take it out of the cluster with "svc cluster leave"`
  throw new Refusal('conflict', 'is_hub', sentence)
}

/** The parts of a data directory that svc trusts. Another user who could change one of them could become the admin. */
const believed = [
  'config.json',
  'svc.db',
  'svc.db.redo',
  'svc.sock',
  'variables.key',
  'keys',
  'keys/server.ed25519',
  'keys/server.old.ed25519',
  'keys/allowed_signers',
  'deployments',
  'tmp'
]

/**
 * Refuses (`unsafe_home`) a data directory that another user could change: the directory itself, its trusted parts, or
 * a directory above it. Root may work on a service user's directory if all of it belongs to that user or to root.
 */
export async function refuseLooseHome(directory: string): Promise<void> {
  const loose = await findLoose(await realpath(directory))
  if (loose === null) return
  const sentence = `The data directory "${directory}" cannot be trusted: ${loose.why}. ${loose.cure}, or choose another with SVC_HOME`
  throw new Refusal('unavailable', 'unsafe_home', sentence)
}

async function findLoose(directory: string): Promise<Looseness | null> {
  const trusted = trustedUsers()
  if (trusted.length === 0) return null
  const stats = await stat(directory)
  // Root may use another user's directory, with a warning (warningOfRoot).
  const owners = trusted[0] === 0 ? [stats.uid] : trusted
  const own = loosenessOf(directory, stats, { owners }) ?? (await looseParentOf(directory))
  if (own !== null) return own
  for (const name of believed) {
    const loose = await findLooseFile(join(directory, name), [...new Set([stats.uid, ...trusted])])
    if (loose !== null) return loose
  }
  return null
}

/** Checks a file; for a symbolic link, its target and the directories above the target. */
async function findLooseFile(path: string, owners: readonly number[]): Promise<Looseness | null> {
  const stats = await lstat(path).catch(() => null)
  if (stats === null) return null
  if (!stats.isSymbolicLink()) return loosenessOf(path, stats, { owners })
  const target = await realpath(path).catch(() => null)
  if (target === null) return null
  return loosenessOf(target, await stat(target), { owners }) ?? (await looseParentOf(target))
}

/**
 * Network file systems, by the type that statfs(2) returns on Linux. On them, sockets and locks work within one machine
 * only, so a second server on another machine could use the same data directory.
 */
const networkFileSystems = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xfe534d42, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0x00c36400, 'Ceph'],
  [0x5346414f, 'AFS'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2']
])

/** Set to 1 by an operator who knows that no other machine uses the data directory. */
const variable = 'SVC_NETWORK_HOME'

/**
 * Returns the name of the network file system with this type; null if the type is not known to be a network file
 * system.
 */
export function networkFileSystem(type: number): string | null {
  // Some versions of Node return a value above 31 bits as a negative number.
  return networkFileSystems.get(type >>> 0) ?? null
}

/**
 * Refuses (`home_on_network`) a data directory on a network file system, unless SVC_NETWORK_HOME=1 is set: another
 * machine could use it at the same time. There is no check on systems other than Linux, nor before Node 18.15.
 */
export async function refuseNetworkHome(
  { directory }: Pick<Home, 'directory'>,
  env: Environment,
  typeOf: (path: string) => Promise<number> = typeOfFileSystem
): Promise<void> {
  if (process.platform !== 'linux' || env[variable] === '1') return
  const name = networkFileSystem(await typeOf(directory).catch(() => 0))
  if (name === null) return
  const sentence =
    `Cannot use the data directory "${directory}": it is on a network file system (${name}), where a server on another machine ` +
    `could use it at the same time. Choose a directory on a local disk with SVC_HOME, or set ${variable}=1 if no other machine uses it`
  throw new Refusal('unavailable', 'home_on_network', sentence)
}

async function typeOfFileSystem(path: string): Promise<number> {
  return Number((await fs.statfs(path)).type)
}

/**
 * Reads `SVC_PUBLIC_URL`, the address under which people reach the server. The server uses it in links. Returns it
 * without a trailing slash, or null if it is not set. Refuses like `checkPublicUrl`.
 */
export function readPublicUrl(environment: Environment, base: string): string | null {
  const text = environment['SVC_PUBLIC_URL']?.trim() ?? ''
  return text === '' ? null : checkPublicUrl(text, { base, name: 'SVC_PUBLIC_URL', kind: 'invalid' })
}

/**
 * Checks a public address and returns it without a trailing slash. `base` is the value of --base as `normaliseBase`
 * returns it: the panel loads everything below it, so an address with another path would not work. `name` is the source
 * of the address. Refuses `invalid_public_url` with the given kind.
 */
export function checkPublicUrl(
  text: string,
  { base, name, kind }: { base: string; name: string; kind: 'invalid' | 'usage' }
): string {
  const refuse = (shown: string, why: string): Refusal =>
    new Refusal(kind, 'invalid_public_url', `${name} "${shown}" is not valid: ${why}`, { field: name })
  const url = parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw refuse(shown(text, url), 'use an address like "https://deploy.example.org"')
  }
  if (url.username !== '' || url.password !== '')
    throw refuse(shown(text, url), 'it must not contain a user name or password')
  if (/[?#]/.test(text)) throw refuse(shown(text, url), 'it must not contain "?" or "#"')
  const path = url.pathname.replace(/(?<!\/)\/+$/, '')
  if (path !== base) {
    const right =
      base === ''
        ? 'it must have no path, because the server has no --base'
        : `its path must be that of --base, "${base}"`
    throw refuse(shown(text, url), right)
  }
  return `${url.origin}${path}`
}

function parse(text: string): URL | null {
  try {
    return new URL(text)
  } catch {
    return null
  }
}

/** Removes the parts that may contain a password. */
function shown(text: string, url: URL | null): string {
  return url === null ? text.replace(/\/\/[^/]*@/, '//') : `${url.protocol}//${url.host}${url.pathname}`
}
