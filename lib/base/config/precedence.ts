/*
 * The effective configuration: each value and its source (§4.13). Precedence, highest first: flags, the environment and
 * `.env.local`, the project's file, the global file. What the server decides (its own scripts, its own async switch)
 * applies after all of these.
 *
 * A variable of the real environment takes precedence over the same variable in `.env.local`, as in every tool that
 * reads such files: a value that a person or a CI job sets for one call is meant for that call. An empty variable is
 * ignored.
 */
import { isTokenText } from '../shared/token-text.js'
import { Refusal } from '../errors.js'
import { tokenOf } from '../text.js'
import {
  adminTokenFor,
  adminTokenOrigin,
  type BearerToken,
  originOf,
  parseServerUrl,
  type ProjectFile,
  projectTokenOrigin,
  readClientConfig,
  selectEnvironment,
  type Selection
} from './client-config.js'
import { type Dotenv, type DotenvKey, readDotenv } from './files.js'
import { type Environment, type GlobalConfig, type Home, readConfig } from './home.js'

/** The source of a value. */
export type Source = 'flag' | 'environment' | '.env.local' | 'project' | 'global' | 'default'

/** A value with its source. `from` names the source for a person: `--server`, `SVC_TOKEN`, or a file's path. */
export interface Sourced<T> {
  value: T
  source: Source
  from: string
}

export type SourcedToken = Sourced<string> & BearerToken

/** The parsed options of the command line. */
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
  /** The older name of `post`. */
  command?: string
  postDeployAsync?: boolean
  /** Values of `--set-env KEY=VALUE`. They override the project's `env` key by key. */
  setEnv?: Readonly<Record<string, string>>
}

/** The sources of all values. */
export interface Layers {
  flags: Flags
  environment: Environment
  dotenv: Dotenv
  project: ProjectFile | null
  global: { path: string; config: GlobalConfig }
  /** The selected environment, which may have a deploy token of its own; null for `svc.config.json`. */
  env: string | null
}

/** The effective configuration. A key is null if no source has a value and there is no default. */
export interface EffectiveConfig {
  serverUrl: Sourced<string> | null
  projectId: Sourced<string> | null
  deployToken: SourcedToken | null
  /** The token for operations commands: `list`, `status`, `logs`, `rollback`, `doctor`. */
  adminToken: SourcedToken | null
  /** The deploy tokens in the global file, of every project. */
  storedTokens: SourcedToken[]
  outputDir: Sourced<string>
  files: Sourced<string[]>
  /** `ignore` of the project's file. The patterns of `--ignore` apply after it. */
  projectIgnore: Sourced<string[]>
  cliIgnore: Sourced<string[]>
  ignoreBuiltin: Sourced<boolean>
  preDeploy: Sourced<string> | null
  postDeploy: Sourced<string> | null
  postDeployAsync: Sourced<boolean>
  env: Record<string, Sourced<string>>
}

/** The directory that is packed by default. */
export const defaultOutputDir = './'

/** Returns the value of each key by the precedence of §4.13. Refuses an invalid value, with its source. */
export function effectiveConfig(layers: Layers): EffectiveConfig {
  const { flags, project } = layers
  const own = project?.config
  const file = project?.path ?? ''
  const deployToken = given(flag(flags.token, '--token')) ?? deployVariable(layers) ?? projectToken(layers)
  const adminToken =
    given(flag(flags.token, '--token')) ?? given(findVariable(layers, 'SVC_TOKEN')) ?? storedAdminToken(layers)
  return {
    serverUrl: checkUrl(serverUrlOf(layers)),
    projectId: projectIdOf(layers),
    deployToken: deployToken ?? ifNamed(adminToken),
    adminToken: adminToken ?? ifNamed(deployToken),
    storedTokens: Object.keys(layers.global.config.projectToken ?? {}).flatMap(key => storedToken(layers, key) ?? []),
    outputDir:
      flag(flags.out, '--out') ??
      ofClient(layers, 'SVC_OUTPUT_DIR') ??
      sourced(own?.outputDir, 'project', file) ??
      byDefault(defaultOutputDir),
    files: sourced(own?.files, 'project', file) ?? byDefault<string[]>([]),
    projectIgnore: sourced(own?.ignore, 'project', file) ?? byDefault<string[]>([]),
    cliIgnore: flag(flags.ignore && [...flags.ignore], '--ignore') ?? byDefault<string[]>([]),
    ignoreBuiltin:
      flag(flags.noIgnoreBuiltin || undefined, '--no-ignore-builtin') ??
      sourced(own?.ignoreBuiltin, 'project', file) ??
      byDefault(false),
    preDeploy:
      flag(flags.pre, '--pre') ?? ofClient(layers, 'SVC_PRE_DEPLOY') ?? sourced(own?.preDeploy, 'project', file),
    postDeploy: postScript(flags) ?? postVariable(layers) ?? sourced(own?.postDeploy, 'project', file),
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

function projectIdOf(layers: Layers): Sourced<string> | null {
  const { flags, project } = layers
  return (
    flag(flags.project, '--project') ??
    ofClient(layers, 'SVC_PROJECT_ID') ??
    // No id and no name of a project ends with white space.
    sourced(project?.config.projectId?.trim(), 'project', project?.path ?? '')
  )
}

/**
 * Returns a variable that says what is deployed. Within a script of a deployment, the environment says what that deployment
 * is (SVC_PROJECT_ID), and not what a `svc push` in the script should do: then only `.env.local` counts.
 */
function ofClient(
  { environment, dotenv }: Pick<Layers, 'environment' | 'dotenv'>,
  key: DotenvKey
): Sourced<string> | null {
  return findVariable({ environment: environment['SVC_DEPLOY_ID'] ? {} : environment, dotenv }, key)
}

function postVariable(layers: Layers): Sourced<string> | null {
  const [post, command] = [ofClient(layers, 'SVC_POST_DEPLOY'), ofClient(layers, 'SVC_DEPLOY_COMMAND')]
  if (post === null || command === null || post.value === command.value) return post ?? command
  const sentence = `${post.from} and ${command.from} have different values: they are two names of the same script`
  throw new Refusal('invalid', 'flags_conflict', sentence, { field: command.from })
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

/** Returns a variable of the environment or of `.env.local` (also `ADMIN_TOKEN`: see the decisions on tokens). */
function findVariable(
  { environment, dotenv }: Pick<Layers, 'environment' | 'dotenv'>,
  key: DotenvKey
): Sourced<string> | null {
  return (
    sourced(environment[key]?.trim() || undefined, 'environment', key) ??
    sourced(dotenv.values[key]?.trim() || undefined, '.env.local', `${key} in ${dotenv.path}`)
  )
}

/** A token that the user gave with the command may be sent to any server. */
function given(token: Sourced<string> | null): SourcedToken | null {
  return bound(token, null)
}

function bound(token: Sourced<string> | null, origin: string | null): SourcedToken | null {
  return token === null ? null : { ...token, value: tokenOf(token.value, token.from), origin }
}

/**
 * Returns the stored token of the effective server. If there is none, returns the global `token`, whose origin keeps it
 * from being sent to this server.
 */
function storedAdminToken(layers: Layers): SourcedToken | null {
  const { path, config } = layers.global
  const address = serverUrlOf(layers)?.value
  const other = address === undefined ? undefined : adminTokenFor(config, address)
  if (other !== undefined)
    return bound(sourced(other.token, 'global', `${other.key} in ${path}`), originOf(address as string))
  return bound(sourced(config.token || undefined, 'global', path), adminTokenOrigin(config))
}

function deployVariable(layers: Layers): SourcedToken | null {
  const token = findVariable(layers, 'SVC_DEPLOY_TOKEN')
  const origin = layers.dotenv.values.SVC_DEPLOY_TOKEN_ORIGIN
  return bound(token, token?.source === '.env.local' && origin ? originOf(origin) : null)
}

/** Returns the token of `projectId:<env>` if an environment was selected, else the token of `projectId`. */
function projectToken(layers: Layers): SourcedToken | null {
  const id = projectIdOf(layers)?.value
  if (id === undefined) return null
  return (layers.env === null ? null : storedToken(layers, `${id}:${layers.env}`)) ?? storedToken(layers, id)
}

/** Returns a token of the global `projectToken`. */
function storedToken({ global: { path, config } }: Layers, key: string): SourcedToken | null {
  const token = new Map(Object.entries(config.projectToken ?? {})).get(key)
  return token
    ? bound(sourced(token, 'global', `projectToken "${key}" in ${path}`), projectTokenOrigin(config, key))
    : null
}

function postScript(flags: Flags): Sourced<string> | null {
  if (flags.post !== undefined && flags.command !== undefined) {
    const sentence = '--post and --command cannot be used together: they are two names of the same option'
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

/** A message may end up in a log, so it must not contain a password. */
function withoutPassword(url: string): string {
  return url.replace(/\/\/[^/@]*@/, '//****@')
}

const switches: Record<string, boolean> = { true: true, 1: true, false: false, 0: false }

/** Returns whether a variable of the environment switches something on. Refuses (`invalid_switch`) what is neither on nor off. */
export function isSwitchedOn(environment: Environment, key: string): boolean {
  return toSwitch(sourced(environment[key]?.trim() || undefined, 'environment', key))?.value ?? false
}

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

/** The sources that `loadLayers` reads, and its rules. */
export interface LoadOptions {
  cwd: string
  environment: Environment
  home: Pick<Home, 'configFile'>
  flags?: Flags
  /** The value of `--env`. */
  env?: string | null
  /**
   * Whether the command requires a project file.
   *
   * `needed`: a missing file is refused. If there are several environments, `choose` selects one. Without `choose`,
   * `svc.config.json` applies, and if that does not exist, the command is refused.
   *
   * `optional`: the command works without a file. If there are several environments, `svc.config.json` applies, or no
   * file.
   */
  project: 'needed' | 'optional'
  /**
   * How a user of this command can name the project instead, as the end of a sentence; null if that is not possible.
   */
  projectHint?: string | null
  /** Asks the user for the environment; null is `svc.config.json`. Absent if nobody can be asked. */
  choose?: (choices: Array<string | null>) => Promise<string | null>
}

/**
 * Reads every file that configuration comes from, for a command that runs in `cwd`. Refuses like `selectEnvironment`,
 * `readClientConfig` and `readConfig`; also `no_client_config` and `env_needed`.
 */
export async function loadLayers(options: LoadOptions): Promise<Layers> {
  const { cwd, environment, home, flags = {} } = options
  const dotenv = await readDotenv(cwd, 'client')
  const isNamed = flags.project !== undefined || ofClient({ environment, dotenv }, 'SVC_PROJECT_ID') !== null
  const env = await decideEnvironment(options, await selectEnvironment(cwd, options.env ?? null), isNamed)
  return {
    flags,
    environment,
    dotenv,
    project: env === undefined ? null : await readClientConfig(cwd, env),
    global: { path: home.configFile, config: await readConfig(home) },
    env: env ?? null
  }
}

/** Returns the environment to read: null for `svc.config.json`, undefined for no file. */
async function decideEnvironment(
  options: LoadOptions,
  selection: Selection,
  isNamed: boolean
): Promise<string | null | undefined> {
  if (selection.outcome === 'found') return selection.env
  if (selection.outcome === 'none') {
    if (options.project === 'optional' || isNamed) return undefined
    const advice = ['Run "svc init" to create one', ...(options.projectHint ? [options.projectHint] : [])].join(', or ')
    throw new Refusal('not_found', 'no_client_config', `No svc.config.json in "${options.cwd}". ${advice}`)
  }
  const plain = selection.hasDefault ? null : undefined
  if (options.project === 'optional') return plain
  const choices = [...(selection.hasDefault ? [null] : []), ...selection.environments]
  if (options.choose) return options.choose(choices)
  if (plain !== undefined) return plain
  const sentence = `Several environments exist: ${selection.environments.join(', ')}. Choose one with --env`
  throw new Refusal('usage', 'env_needed', sentence, { field: '--env' })
}

/** Masks a token except for its last 4 characters (§5.8). A token shorter than 12 characters is masked completely. */
export function maskToken(token: string): string {
  return token.length < 12 ? '****' : `****${token.slice(-4)}`
}

/** One line of the output of `svc config`. Tokens are masked. */
export interface ConfigRow {
  key: string
  value: string
  source: Source
  from: string
  /** The only origin that a token is sent to; null if it may be sent to any. */
  origin?: string | null
}

/** Returns the effective configuration as `svc config` prints it. Keys without a value are omitted. */
export function configRows(config: EffectiveConfig): ConfigRow[] {
  const rows: ConfigRow[] = []
  const add = <T>(key: string, item: Sourced<T> | null, show: (value: T) => string = String): void => {
    if (item !== null) rows.push({ key, value: show(item.value), source: item.source, from: item.from })
  }
  add('serverUrl', config.serverUrl)
  add('projectId', config.projectId)
  for (const key of ['deployToken', 'adminToken'] as const) {
    const token = config[key]
    if (token !== null)
      rows.push({ key, value: maskToken(token.value), source: token.source, from: token.from, origin: token.origin })
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

/** Returns a named token, which serves both purposes as far as its role permits; null for every other one. */
function ifNamed(token: SourcedToken | null): SourcedToken | null {
  return token !== null && isTokenText(token.value) ? token : null
}
