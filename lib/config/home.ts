/*
 * The data directory: where it is, what lies in it, and its config.json, which the server (adminToken) and the client
 * (serverUrl, token, …: §2.13) share. Two processes may write that file at once, so a write is a read, a change and a
 * rename under a lock; keys that this version does not know are kept.
 */
import { constants } from 'node:fs'
import { access, mkdir, readFile, rmdir, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { Refusal } from '../base/refusal.js'
import { isDiskFull } from '../base/system-error.js'
import { parseJsonObject } from './json.js'
import { withLock } from './lock.js'
import { replaceFile } from './replace-file.js'
import { refuseLooseHome } from './trusted-home.js'

export type Environment = Readonly<Record<string, string | undefined>>

/** Absolute paths. */
export interface Home {
  directory: string
  configFile: string
  database: string
  /** Seals the secrets of projects. */
  variablesKey: string
  /** Archives, logs and manifests: `<deployId>.zip`, `.log`, `.manifest`. */
  deployments: string
  /** Uploads that are not yet kept. */
  tmp: string
}

/** `config.json`: the keys that are known. Others are kept as they are. */
export interface GlobalConfig {
  adminToken?: string
  /** The ADMIN_TOKEN that `serve --pm2` was started with: pm2 itself gets no token. */
  supervisedToken?: string
  serverUrl?: string
  /** The admin token for operations commands (§4.13). */
  token?: string
  /** `projectId`, or `projectId:<env>`, to deploy token. */
  projectToken?: Record<string, string>
  /** Admin tokens of other servers than that of `token`, by origin (`svc login`). */
  adminTokens?: Record<string, string>
  /** Where `token` and each `projectToken` may be sent (config/token-origin.ts). */
  tokenOrigin?: string
  projectTokenOrigin?: Record<string, string>
  telemetryInstanceId?: string
  telemetryEndpoint?: string
  telemetryEnabled?: boolean
  [key: string]: unknown
}

const directoryMode = 0o700
const secretMode = 0o600

/** Where the data directory is: `SVC_HOME` (relative to `cwd`, `~/` is the user's home), else `~/.svc`. */
export function locateHome(env: Environment, cwd: string = process.cwd()): Home {
  const wanted = env['SVC_HOME'] || '~/.svc'
  const directory = /^~(?=$|[\\/])/.test(wanted) ? join(homedir(), wanted.slice(1)) : resolve(cwd, wanted)
  return {
    directory,
    configFile: join(directory, 'config.json'),
    database: join(directory, 'svc.db'),
    variablesKey: join(directory, 'variables.key'),
    deployments: join(directory, 'deployments'),
    tmp: join(directory, 'tmp')
  }
}

/** Locates the data directory, and makes sure of it. */
export async function openHome(env: Environment, cwd: string = process.cwd()): Promise<Home> {
  const home = locateHome(env, cwd)
  await ensureHome(home)
  return home
}

/**
 * Creates what is missing of the data directory, readable for its owner only; gives which of its directories it made. One
 * that exists keeps its mode. Refuses one that is a file, cannot be written to, or could be changed by other users.
 */
export async function ensureHome(home: Home): Promise<string[]> {
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

/** Whether it was not there before. */
async function ensureDirectory(directory: string): Promise<boolean> {
  try {
    const made = await mkdir(directory, { recursive: true, mode: directoryMode })
    await access(directory, constants.R_OK | constants.W_OK | constants.X_OK)
    return made !== undefined
  } catch (error) {
    throw await refuseDirectory(directory, error as NodeJS.ErrnoException)
  }
}

async function refuseDirectory(directory: string, error: NodeJS.ErrnoException): Promise<unknown> {
  const refuse = (code: string, why: string): Refusal => {
    const next = why.includes('; ') ? ', or choose' : '; choose'
    const sentence = `the data directory "${directory}" cannot be used: ${why}${next} another with SVC_HOME`
    return new Refusal('unavailable', code, sentence, { cause: error })
  }
  const file = await findFile(directory)
  if (file !== null) return refuse('home_not_a_directory', file === directory ? 'it is a file' : `"${file}" is a file`)
  if (error.code === 'EROFS') return refuse('home_not_writable', 'its file system is read-only')
  if (error.code === 'EACCES' || error.code === 'EPERM') {
    const isThere = await stat(directory).then(() => true, () => false)
    if (isThere) return refuse('home_not_writable', `this user may not write there${await whoseIs(directory)}; ${asOwner}`)
    return refuse('home_not_writable', 'this user may not create it')
  }
  return isDiskFull(error) ? refuse('no_space', 'there is no space left on its disk; make some') : error
}

const asOwner = 'run svc as the one it belongs to, or give it to this one (chown)'

/** Where something belongs to another user: who that is, as a part of a sentence. */
async function whoseIs(path: string): Promise<string> {
  const found = await stat(path).catch(() => null)
  const own = process.getuid?.()
  return found === null || own === undefined || found.uid === own ? '' : ` (it belongs to the user ${found.uid}, this is ${own})`
}

/** What a start is refused with that finds no space; null: it was something else. */
export function noSpaceFor(directory: string, error: unknown): Refusal | null {
  const isFull = isDiskFull(error) || (error instanceof Refusal && error.code === 'disk_full')
  if (!isFull) return null
  const sentence = `the data directory "${directory}" cannot be used: there is no space left on its disk; make some, or choose another with SVC_HOME`
  return new Refusal('unavailable', 'no_space', sentence, { cause: error })
}

/** Says so where root runs svc on another user's directory; null: it does not. */
export async function warningOfRoot({ directory }: Pick<Home, 'directory'>): Promise<string | null> {
  if (process.getuid?.() !== 0) return null
  const { uid } = await stat(directory)
  if (uid === 0) return null
  return `svc runs as root, and the data directory "${directory}" belongs to the user ${uid}: run it as that user, who could not read what root makes there`
}

/** The part of the path that is no directory, if there is one. */
async function findFile(path: string): Promise<string | null> {
  for (let part = path; ; part = dirname(part)) {
    const found = await stat(part).catch(() => null)
    if (found !== null) return found.isDirectory() ? null : part
    if (part === dirname(part)) return null
  }
}

/**
 * The global configuration; `{}` if there is no file yet. Refuses a broken file, naming it and the line, and one that
 * other users could change (`unsafe_home`): it holds tokens, and says to which server they go.
 */
export async function readConfig(home: Pick<Home, 'configFile'>): Promise<GlobalConfig> {
  const text = await readText(home.configFile)
  if (text !== '') await refuseLooseHome(dirname(home.configFile))
  const config = parseJsonObject(text, home.configFile)
  for (const [key, rule] of Object.entries(configRules)) {
    if (config[key] === undefined || rule.holds(config[key])) continue
    const sentence = `${home.configFile} could not be read: "${key}" must be ${rule.is}`
    throw new Refusal('invalid', 'broken_config', sentence, { field: key })
  }
  return config
}

const isText = (value: unknown): boolean => typeof value === 'string'
const isTextMap = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && Object.values(value).every(isText)

const configRules: Record<string, { is: string; holds(value: unknown): boolean }> = {
  adminToken: { is: 'a text', holds: isText },
  supervisedToken: { is: 'a text', holds: isText },
  serverUrl: { is: 'a text', holds: isText },
  token: { is: 'a text', holds: isText },
  projectToken: { is: 'an object of texts', holds: isTextMap },
  adminTokens: { is: 'an object of texts', holds: isTextMap },
  tokenOrigin: { is: 'a text', holds: isText },
  projectTokenOrigin: { is: 'an object of texts', holds: isTextMap },
  telemetryInstanceId: { is: 'a text', holds: isText },
  telemetryEndpoint: { is: 'a text', holds: isText },
  telemetryEnabled: { is: 'true or false', holds: value => typeof value === 'boolean' }
}

async function readText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code
    if (code === 'ENOENT') return ''
    if (code !== 'EACCES' && code !== 'EPERM' && code !== 'EISDIR') throw cause
    const why = code === 'EISDIR' ? 'it is a directory; move it away' : `this user may not read it${await whoseIs(path)}; ${asOwner}`
    throw new Refusal('unavailable', 'config_unreadable', `${path} could not be read: ${why}`, { cause })
  }
}

/**
 * Changes the global configuration: `change` gets what the file holds, and alters it. Written whole or not at all, mode
 * 0600; a key set to undefined is removed. A broken file is refused and left as it is; so is one that another process goes on
 * changing (`file_locked`), and a full disk (`disk_full`). Answers what was written.
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
    const sentence = `Cannot write "${home.configFile}": no space left on device. Nothing was changed; free some space and try again`
    throw new Refusal('unavailable', 'disk_full', sentence, { cause: error })
  })
}
