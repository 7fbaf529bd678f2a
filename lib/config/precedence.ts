/*
 * Which value holds, and where it came from (§4.13): flags, then the environment and `.env.local`, then the project's
 * file, then the global one. What the server decides (its own scripts, its own async switch) comes after all of this.
 *
 * Decided: a variable of the real environment is over the same one in `.env.local`, as every tool that reads such files
 * has it: what a person or a CI job sets for one call is meant for that call. An empty variable counts as none.
 */
import { Refusal } from '../base/refusal.js'
import {
  parseServerUrl, readClientConfig, selectEnvironment, type ProjectFile, type Selection
} from './client-config.js'
import { readDotenv, type Dotenv, type DotenvKey } from './dotenv.js'
import { adminTokenFor, adminTokenOrigin, originOf, projectTokenOrigin, type BearerToken } from './token-origin.js'
import { readConfig, type Environment, type GlobalConfig, type Home } from './home.js'

export type Source = 'flag' | 'environment' | '.env.local' | 'project' | 'global' | 'default'

/** A value with its source; `from` says it to a person: `--server`, `SVC_TOKEN`, a file's path. */
export interface Sourced<T> {
  value: T
  source: Source
  from: string
}

/** A token with its source. */
export type SourcedToken = Sourced<string> & BearerToken

/** What the command line gave, already parsed. */
export interface Flags {
  token?: string
  server?: string
  project?: string
  out?: string
  ignore?: readonly string[]
  /** `--no-ignore-builtin`. */
  noIgnoreBuiltin?: boolean
  pre?: string
  post?: string
  /** The same as `post`, under its older name. */
  command?: string
  postDeployAsync?: boolean
  /** `--set-env KEY=VALUE`, over the project's `env` key by key. */
  setEnv?: Readonly<Record<string, string>>
}

/** All that values are taken from. */
export interface Layers {
  flags: Flags
  environment: Environment
  dotenv: Dotenv
  project: ProjectFile | null
  global: { path: string; config: GlobalConfig }
  /** The environment that was chosen, for its own deploy token. */
  env: string | null
}

/** The effective configuration; null where nothing gave a value and there is no default. */
export interface EffectiveConfig {
  serverUrl: Sourced<string> | null
  projectId: Sourced<string> | null
  deployToken: SourcedToken | null
  /** For operations commands: `list`, `status`, `logs`, `rollback`, `doctor`. */
  adminToken: SourcedToken | null
  outputDir: Sourced<string>
  files: Sourced<string[]>
  /** `ignore` of the project's file; `--ignore` is laid over it, pattern by pattern. */
  projectIgnore: Sourced<string[]>
  cliIgnore: Sourced<string[]>
  ignoreBuiltin: Sourced<boolean>
  preDeploy: Sourced<string> | null
  postDeploy: Sourced<string> | null
  postDeployAsync: Sourced<boolean>
  env: Record<string, Sourced<string>>
}

export const defaultOutputDir = './'

/** The value of each key, by the precedence of §4.13. Refuses a value that cannot be meant, naming where it stands. */
export function effectiveConfig(layers: Layers): EffectiveConfig {
  const { flags, project } = layers
  const own = project?.config
  const file = project?.path ?? ''
  return {
    serverUrl: checkUrl(serverUrlOf(layers)),
    projectId: flag(flags.project, '--project') ?? sourced(own?.projectId, 'project', file),
    deployToken: given(flag(flags.token, '--token')) ?? deployVariable(layers) ?? projectToken(layers),
    adminToken:
      given(flag(flags.token, '--token')) ??
      given(findVariable(layers, 'SVC_TOKEN')) ??
      storedAdminToken(layers),
    outputDir: flag(flags.out, '--out') ?? sourced(own?.outputDir, 'project', file) ?? byDefault(defaultOutputDir),
    files: sourced(own?.files, 'project', file) ?? byDefault<string[]>([]),
    projectIgnore: sourced(own?.ignore, 'project', file) ?? byDefault<string[]>([]),
    cliIgnore: flag(flags.ignore && [...flags.ignore], '--ignore') ?? byDefault<string[]>([]),
    ignoreBuiltin:
      flag(flags.noIgnoreBuiltin || undefined, '--no-ignore-builtin') ??
      sourced(own?.ignoreBuiltin, 'project', file) ??
      byDefault(false),
    preDeploy: flag(flags.pre, '--pre') ?? sourced(own?.preDeploy, 'project', file),
    postDeploy: postScript(flags) ?? sourced(own?.postDeploy, 'project', file),
    postDeployAsync:
      flag(flags.postDeployAsync, '--post-deploy-async') ??
      toSwitch(findVariable(layers, 'SVC_POST_DEPLOY_ASYNC')) ??
      sourced(own?.postDeployAsync, 'project', file) ??
      byDefault(false),
    env: {
      ...mapValues(own?.env ?? {}, value => ({ value, source: 'project', from: file })),
      ...mapValues(flags.setEnv ?? {}, value => ({ value, source: 'flag', from: '--set-env' }))
    }
  }
}

function serverUrlOf(layers: Layers): Sourced<string> | null {
  const { flags, project, global } = layers
  return (
    flag(flags.server, '--server') ??
    findVariable(layers, 'SVC_SERVER_URL') ??
    sourced(project?.config.serverUrl, 'project', project?.path ?? '') ??
    sourced(global.config.serverUrl || undefined, 'global', global.path)
  )
}

function sourced<T>(value: T | undefined, source: Source, from: string): Sourced<T> | null {
  return value === undefined ? null : { value, source, from }
}

function flag<T>(value: T | undefined, name: string): Sourced<T> | null {
  return sourced(value, 'flag', name)
}

function byDefault<T>(value: T): Sourced<T> {
  return { value, source: 'default', from: 'default' }
}

/** A variable of the environment, or of `.env.local` (`ADMIN_TOKEN` too: decisions on tokens). */
export function findVariable(
  { environment, dotenv }: Pick<Layers, 'environment' | 'dotenv'>,
  key: DotenvKey
): Sourced<string> | null {
  return (
    sourced(environment[key] || undefined, 'environment', key) ??
    sourced(dotenv.values[key] || undefined, '.env.local', `${key} in ${dotenv.path}`)
  )
}

/** A token of the user's own word: it goes where the command goes. */
function given(token: Sourced<string> | null): SourcedToken | null {
  return bound(token, null)
}

function bound(token: Sourced<string> | null, origin: string | null): SourcedToken | null {
  return token === null ? null : { ...token, origin }
}

/** The stored token of the effective server; if it has none, the one of another server, which its origin keeps from it. */
function storedAdminToken(layers: Layers): SourcedToken | null {
  const { path, config } = layers.global
  const address = serverUrlOf(layers)?.value
  const other = address === undefined ? undefined : adminTokenFor(config, address)
  if (other !== undefined) return bound(sourced(other.token, 'global', `${other.key} in ${path}`), originOf(address as string))
  return bound(sourced(config.token || undefined, 'global', path), adminTokenOrigin(config))
}

function deployVariable(layers: Layers): SourcedToken | null {
  const token = findVariable(layers, 'SVC_DEPLOY_TOKEN')
  const origin = layers.dotenv.values.SVC_DEPLOY_TOKEN_ORIGIN
  return bound(token, token?.source === '.env.local' && origin ? originOf(origin) : null)
}

/** `projectId:<env>` where an environment was chosen, then `projectId`. */
function projectToken({ flags, project, global, env }: Layers): SourcedToken | null {
  const id = flags.project ?? project?.config.projectId
  const tokens = new Map(Object.entries(global.config.projectToken ?? {}))
  if (id === undefined) return null
  for (const key of env === null ? [id] : [`${id}:${env}`, id]) {
    const token = tokens.get(key)
    const from = `projectToken "${key}" in ${global.path}`
    if (token) return bound(sourced(token, 'global', from), projectTokenOrigin(global.config, key))
  }
  return null
}

function postScript(flags: Flags): Sourced<string> | null {
  if (flags.post !== undefined && flags.command !== undefined) {
    const sentence = '--post and --command cannot be used together: they are two names of one thing'
    throw new Refusal('usage', 'flags_conflict', sentence, { field: '--command' })
  }
  return flag(flags.post, '--post') ?? flag(flags.command, '--command')
}

function checkUrl(url: Sourced<string> | null): Sourced<string> | null {
  if (url === null) return null
  const value = parseServerUrl(url.value)
  if (value !== null) return { ...url, value }
  const sentence = `${url.from} cannot be "${withoutPassword(url.value)}": it must be an address like "https://deploy.example.com"`
  throw new Refusal('invalid', 'invalid_server_url', sentence, { field: url.from })
}

/** A sentence may end up in a log. */
function withoutPassword(url: string): string {
  return url.replace(/\/\/[^/@]*@/, '//****@')
}

const switches: Record<string, boolean> = { true: true, 1: true, false: false, 0: false }

function toSwitch(text: Sourced<string> | null): Sourced<boolean> | null {
  if (text === null) return null
  const value = Object.hasOwn(switches, text.value) ? switches[text.value] : undefined
  if (value !== undefined) return { ...text, value }
  const sentence = `${text.from} cannot be "${text.value}": it must be true, false, 1 or 0`
  throw new Refusal('invalid', 'invalid_switch', sentence, { field: text.from })
}

function mapValues<T, U>(object: Readonly<Record<string, T>>, map: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value)]))
}

export interface LoadOptions {
  cwd: string
  environment: Environment
  home: Pick<Home, 'configFile'>
  flags?: Flags
  /** `--env`. */
  env?: string | null
  /**
   * `needed`: no project file is refused. `optional`: a command that can do without. Several environments are `choose`d
   * from if the file is needed and somebody can be asked; else `svc.config.json` applies. Without that file, several
   * environments are refused if one is needed, and ignored if not.
   */
  project: 'needed' | 'optional'
  /** How the command lets a person name the project instead; null: it does not. */
  projectHint?: string | null
  /** Asks a person which environment; null is `svc.config.json`. Absent where nobody can be asked: refused. */
  choose?: (choices: Array<string | null>) => Promise<string | null>
}

/** Reads every file that configuration comes from, for a command that runs in `cwd`. */
export async function loadLayers(options: LoadOptions): Promise<Layers> {
  const { cwd, environment, home, flags = {} } = options
  const env = await decideEnvironment(options, await selectEnvironment(cwd, options.env ?? null))
  return {
    flags,
    environment,
    dotenv: await readDotenv(cwd, 'client'),
    project: env === undefined ? null : await readClientConfig(cwd, env),
    global: { path: home.configFile, config: await readConfig(home) },
    env: env ?? null
  }
}

/** The environment to read; null: `svc.config.json`; undefined: no file. */
async function decideEnvironment(options: LoadOptions, selection: Selection): Promise<string | null | undefined> {
  if (selection.outcome === 'found') return selection.env
  if (selection.outcome === 'none') {
    if (options.project === 'optional' || options.flags?.project !== undefined) return undefined
    const advice = ['"svc init" writes one', ...(options.projectHint ? [options.projectHint] : [])].join(', or ')
    throw new Refusal('not_found', 'no_client_config', `there is no svc.config.json in ${options.cwd}: ${advice}`)
  }
  const plain = selection.hasDefault ? null : undefined
  if (options.project === 'optional') return plain
  const choices = [...(selection.hasDefault ? [null] : []), ...selection.environments]
  if (options.choose) return options.choose(choices)
  if (plain !== undefined) return plain
  const sentence = `which environment is meant? Say it with --env: ${selection.environments.join(', ')}`
  throw new Refusal('usage', 'env_needed', sentence, { field: '--env' })
}

/** Masked to its last 4 characters (§5.8); a token too short for that shows none. */
export function maskToken(token: string): string {
  return token.length < 12 ? '****' : `****${token.slice(-4)}`
}

/** One line of `svc config`: tokens are masked. */
export interface ConfigRow {
  key: string
  value: string
  source: Source
  from: string
  /** Of a token: the only origin that it is sent to; null: any. */
  origin?: string | null
}

/** The effective configuration as `svc config` prints it; what has no value is left out. */
export function configRows(config: EffectiveConfig): ConfigRow[] {
  const rows: ConfigRow[] = []
  const add = <T>(key: string, item: Sourced<T> | null, show: (value: T) => string = String): void => {
    if (item !== null) rows.push({ key, value: show(item.value), source: item.source, from: item.from })
  }
  add('serverUrl', config.serverUrl)
  add('projectId', config.projectId)
  for (const key of ['deployToken', 'adminToken'] as const) {
    const token = config[key]
    if (token !== null) rows.push({ key, value: maskToken(token.value), source: token.source, from: token.from, origin: token.origin })
  }
  add('outputDir', config.outputDir)
  add('files', config.files, files => files.join(', ') || 'everything')
  for (const ignore of [config.cliIgnore, config.projectIgnore]) {
    if (ignore.value.length > 0) add('ignore', ignore, patterns => patterns.join(', '))
  }
  add('ignoreBuiltin', config.ignoreBuiltin)
  add('preDeploy', config.preDeploy)
  add('postDeploy', config.postDeploy)
  add('postDeployAsync', config.postDeployAsync)
  for (const [name, item] of Object.entries(config.env)) add(`env.${name}`, item)
  return rows
}
