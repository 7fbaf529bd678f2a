import { Refusal } from '../../base/errors.js'
import { oneLine, tokenOf } from '../../base/text.js'
import { type GlobalConfig, locateHome, writeConfig } from '../../base/config/home.js'
import type { EffectiveConfig, SourcedToken } from '../../base/config/precedence.js'
import { addAdminToken, maySend, originOf, removeTokens, storeProjectTokens } from '../../base/config/client-config.js'
import type { TokenHolder } from '../../model/access.js'
import { createClient } from '../client/client.js'
import { projectAmong, projectIdOfWord, whoami } from '../client/named-project.js'
import { localClient, runningOwner } from '../client/local.js'
import { askServer, loadConfiguration, problemAt, serverUrlOf } from '../client/session.js'
import { type Context, defineCommand, exitCodes, type Family, option, toggle } from '../command.js'
import { serverOptions, sharedOptions } from '../common-options.js'
import { endOf } from '../named-tokens.js'
import { askSecret, canAsk, mustAsk, readTokenOption } from '../terminal/prompt.js'

/** A token and the answer of the server about it. */
interface Checked {
  /** The kind of token that the configuration says it is. */
  kind: 'admin' | 'deploy'
  from: string
  role: string | null
  project: TokenHolder['project']
  /** The named token; null: another kind. */
  named: NonNullable<TokenHolder['token']> | null
  /** The projects that it is limited to; null: none. */
  projects: TokenHolder['projects']
  /** Why the token cannot be used; null if it is valid. */
  problem: string | null
}

/** The commands for the stored tokens. */
export const commands = {
  login: defineCommand({
    options: {
      server: sharedOptions.server,
      token: option('token', 'token to store; "-" reads it from standard input'),
      project: { ...sharedOptions.project, help: 'id or name of the project to store a global deploy token for' },
      env: sharedOptions.env
    },
    details:
      'Finds the server of this data directory (SVC_HOME) by itself, if it runs here and you own it: no address or\n' +
      'token has to be copied. For another server, it asks for the token without showing it. Checks the token with\n' +
      'the server, and stores it in the global configuration (~/.svc/config.json, which only you can read). svc sends\n' +
      'the token only to that server. You can log in to several servers. The admin token allows everything, a named\n' +
      'token what its role and projects permit, and the deploy token of a project pushes to this project and access\n' +
      'to its deployments.',
    examples: [
      ['login', 'log in to the server that runs on this machine'],
      ['login --server https://deploy.example.com', 'ask for the token of a server'],
      ['login --token - < token.txt', 'read the token from a file']
    ],
    async run({ options }, context) {
      const { env, server } = options
      const { config } = await loadConfiguration(context, {
        flags: { server, project: options.project },
        env,
        project: 'optional'
      })
      const local = options.token === undefined ? await localServer(config.serverUrl?.value ?? null, context) : null
      const address = local?.address ?? (await addressFor(config, server === undefined, context))
      const token = local?.token ?? (await readToken(options.token, address, context))
      const holder = await checkToken(token, address, context)
      const here = await projectHere(holder, { given: options.project, config, token, address }, context)
      const name = projectNameOf(holder, here)
      const home = locateHome(context.env, context.cwd)
      await writeConfig(home, stored => {
        if (isForServer(holder)) addAdminToken(stored, token, address)
        else storeProjectTokens(stored, { [name as string]: token }, address)
        if (!stored.serverUrl && !hasUnboundToken(stored)) stored.serverUrl = address
      })
      context.output.print(
        `Logged in to ${address} ${describe(holder, name)}. The token is stored in ${home.configFile}`
      )
      warnOfVariables(holder, context)
    }
  }),

  logout: defineCommand({
    options: { server: sharedOptions.server, env: sharedOptions.env },
    details:
      'Removes all tokens of the server from the global configuration: the admin token or the named one, and the deploy\n' +
      'tokens of projects. They stay valid on the server. Environment variables and .env.local do not change.',
    examples: [['logout --server https://deploy.example.com', 'remove the stored tokens of a server']],
    async run({ options }, context) {
      const { env, server } = options
      const { config } = await loadConfiguration(context, { flags: { server }, env, project: 'optional' })
      const address = serverUrlOf(config, context.command).value
      const home = locateHome(context.env, context.cwd)
      let removed: string[] = []
      await writeConfig(home, stored => void (removed = removeTokens(stored, address)))
      const { output } = context
      if (removed.length === 0) output.print(`No tokens are stored for ${originOf(address)}`)
      else output.print(`Removed from ${home.configFile} for ${originOf(address)}: ${removed.join(', ')}`)
    }
  }),

  whoami: defineCommand({
    options: { ...serverOptions, json: toggle('print {server, tokens} as JSON') },
    details:
      'Asks the server about each token that svc would use in this directory. The exit code is 1 if none is valid.',
    examples: [['whoami', 'show the tokens that svc uses in this directory']],
    async run({ options }, context) {
      const { env, server, token } = options
      const { config } = await loadConfiguration(context, { flags: { server, token }, env, project: 'optional' })
      const address = serverUrlOf(config, context.command).value
      const tokens = await Promise.all(tokensOf(config).map(held => checkHeld(held, address, context)))
      if (options.json) context.output.json({ server: address, tokens })
      else print(address, tokens, context)
      return tokens.some(({ problem }) => problem === null) ? exitCodes.success : exitCodes.failed
    }
  })
} satisfies Family

/** Returns the address of the server to log in to. Asks on a terminal, if the command line does not name it. */
function addressFor(config: EffectiveConfig, isAsking: boolean, context: Context): Promise<string> | string {
  if (isAsking && canAsk(context.host)) return askServer(context, config.serverUrl?.value)
  return serverUrlOf(config, context.command).value
}

/**
 * Returns the address and the admin token of the server that runs on the data directory of this user. Null if there is none,
 * if another server is meant, or if it cannot say (an older one, a hub that does not lead, a Unix socket only).
 */
async function localServer(
  meant: string | null,
  { env, cwd, output }: Context
): Promise<{ address: string; token: string } | null> {
  const path = await runningOwner(locateHome(env, cwd))
  if (path === null) return null
  const found = await localClient(path, env)
    .call('POST /api/auth/local')
    .catch((error: unknown) => {
      if (error instanceof Refusal) return null
      throw error
    })
  if (found === null) return null
  // "localhost" may be another program than "127.0.0.1" of the same port, so only the same origin is the same server.
  const own = found.addresses.filter(address => meant === null || originOf(address) === originOf(meant))
  for (const address of own) {
    const problem = await problemAt(address, env)
    if (problem === null) return { address, token: found.token }
    output.note(`${problem}.`)
  }
  return null
}

async function readToken(given: string | undefined, address: string, { host }: Context): Promise<string> {
  if (given !== undefined) return readTokenOption(host, '--token', given)
  mustAsk(host, 'The token is missing', 'use --token')
  const token = tokenOf(await askSecret(host, `Token for ${address}`), 'the answer')
  if (token !== '') return token
  throw new Refusal('invalid', 'no_token', 'The token is empty: nothing was stored')
}

async function checkToken(value: string, serverUrl: string, { env }: Context): Promise<TokenHolder> {
  const token = { value, from: 'this login', origin: null }
  const client = createClient({ serverUrl, token, env })
  const holder = await whoami(client)
  if (holder !== null) return holder
  // Every server of the interface checks the admin token (§5.4).
  const asked: Promise<{ success?: boolean }> = client.call('POST /api/auth/login', { body: { token: value } })
  const answer = await asked.catch((error: unknown) => {
    if (error instanceof Refusal && error.kind === 'unauthorized') return { success: false }
    throw error
  })
  if (answer.success === true) return { role: 'admin', name: 'admin', project: null }
  throw new Refusal(
    'unsupported',
    'server_too_old',
    `${serverUrl} does not accept it as the admin token, and cannot check other tokens. To store a deploy token, use "svc config:set token -"`
  )
}

/** Returns whether a token is stored for the whole server: the admin token, and every named one. */
function isForServer({ role, token = null }: TokenHolder): boolean {
  return role === 'admin' || token !== null
}

/**
 * Returns the id of the project that the command line names, else of the configured one. A token of the server looks it
 * up: the new one, or for the global deploy token a stored one.
 */
async function projectHere(
  { role, project }: TokenHolder,
  {
    given,
    config,
    token,
    address
  }: { given: string | undefined; config: EffectiveConfig; token: string; address: string },
  { env }: Context
): Promise<string | undefined> {
  const word = given ?? config.projectId?.value
  if (word === undefined || (given === undefined && role !== 'global')) return word
  if (project !== null) return projectAmong([project], word).id
  const { adminToken } = config
  const isAsking = role === 'global' && adminToken !== null && maySend(adminToken, address)
  const asking = isAsking ? adminToken : { value: token, from: 'this login', origin: null }
  return projectIdOfWord(createClient({ serverUrl: address, token: asking, env }), word)
}

/** Returns the key of `projectToken` for this token, or null for one that is stored for the server. */
function projectNameOf(holder: TokenHolder, here: string | undefined): string | null {
  const { project } = holder
  if (isForServer(holder)) return null
  if (project !== null) return project.id
  if (here !== undefined) return here
  throw new Refusal(
    'usage',
    'project_needed',
    'This is the global deploy token. Use --project to name the project to store it for'
  )
}

function describe({ role, project, token = null }: TokenHolder, name: string | null): string {
  if (token !== null) return oneLine(`with the token "${token.name}" (${role})`)
  if (role === 'admin') return 'with the admin token'
  return project === null
    ? `with the global deploy token, for ${name}`
    : `with the deploy token of ${project.name} (${project.id})`
}

/** Returns whether a token has no origin. Such a token follows `serverUrl`: a new one would receive the token. */
function hasUnboundToken(config: GlobalConfig): boolean {
  const origins = config.projectTokenOrigin ?? {}
  const isUnbound = Boolean(config.token) && !config.tokenOrigin
  return isUnbound || Object.keys(config.projectToken ?? {}).some(name => !Object.hasOwn(origins, name))
}

function warnOfVariables(holder: TokenHolder, { env, output }: Context): void {
  const variable = isForServer(holder) ? 'SVC_TOKEN' : 'SVC_DEPLOY_TOKEN'
  if (env[variable]) output.warn(`${variable} is set and overrides the stored token`)
}

type HeldToken = [kind: Checked['kind'], token: SourcedToken]

/** Returns the tokens of the configuration. A token that is both kinds, such as one of --token, is listed once. */
function tokensOf({ adminToken, deployToken }: EffectiveConfig): HeldToken[] {
  const held: HeldToken[] = []
  if (adminToken !== null) held.push(['admin', adminToken])
  if (deployToken !== null && deployToken.value !== adminToken?.value) held.push(['deploy', deployToken])
  return held
}

async function checkHeld([kind, token]: HeldToken, serverUrl: string, { env }: Context): Promise<Checked> {
  const { from } = token
  const failed = (problem: string): Checked => ({
    kind,
    from,
    role: null,
    project: null,
    named: null,
    projects: null,
    problem
  })
  if (!maySend(token, serverUrl)) return failed(`not sent (it belongs to ${token.origin})`)
  try {
    const holder = await whoami(createClient({ serverUrl, token: { ...token, from }, env }))
    if (holder === null) return failed('not checked (the server is too old to check tokens)')
    const { role, project, token: named = null, projects = null } = holder
    return { kind, from, role, project, named, projects, problem: null }
  } catch (error) {
    if (error instanceof Refusal) return failed(`not accepted (${error.message})`)
    throw error
  }
}

function print(address: string, tokens: readonly Checked[], { output }: Context): void {
  if (tokens.length === 0) output.print(`${address}: no token. Use "svc login" to store one`)
  for (const checked of tokens) {
    const { kind, from, role, project, named, problem } = checked
    const what =
      problem !== null
        ? `${kind} token ${problem}`
        : named !== null
          ? describeNamed(named, checked)
          : role === 'admin'
            ? 'admin token'
            : project === null
              ? 'global deploy token'
              : `deploy token of ${project.name} (${project.id})`
    output.print(`${address}: ${what}, from ${from}`)
  }
}

function describeNamed(named: NonNullable<Checked['named']>, { role, projects }: Checked): string {
  const scope = projects == null ? 'all projects' : projects.map(({ name }) => name).join(', ')
  return oneLine(`token "${named.name}": ${role} of ${scope}, ${endOf({ ...named, revokedAt: null }, Date.now())}`)
}
