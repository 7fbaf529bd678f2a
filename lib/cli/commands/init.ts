import { access, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { oneLine } from '../../base/one-line.js'
import { Refusal } from '../../base/refusal.js'
import { clientConfigPath, parseServerUrl, plainEnvironment, writeClientConfig, type ClientConfig } from '../../config/client-config.js'
import { readDotenv, writeDotenv } from '../../config/dotenv.js'
import { locateHome, readConfig, writeConfig } from '../../config/home.js'
import { maySend, originOf, projectTokenOrigin, storeProjectTokens } from '../../config/token-origin.js'
import { defaultOutputDir } from '../../config/precedence.js'
import { createApi } from '../api.js'
import { usage } from '../args.js'
import { askServer } from '../ask-server.js'
import { createClient } from '../client.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { isIgnoredByGit } from '../git.js'
import { ask, askSecret, canAsk, choose, mustAsk, readSecret } from '../prompt.js'
import { sharedOptions } from '../common-options.js'
import { suggestOutputDirectory } from '../output-directory.js'
import { loadConfiguration } from '../session.js'

interface Given {
  project: string | undefined
  server: string | undefined
  out: string | undefined
  token: string | undefined
}

interface Answers {
  config: ClientConfig
  token: string | undefined
  /** The server that the token is for, if one is known. */
  server: string | undefined
}

export const command = defineCommand({
  operands: {},
  options: {
    project: { type: 'text', value: 'id', complete: 'projects', help: "the project's id" },
    out: { type: 'text', value: 'dir', help: 'the directory to pack' },
    server: sharedOptions.server,
    env: { ...sharedOptions.env, help: 'write svc.config.<name>.json' },
    token: { type: 'text', value: 'token', help: 'the project\'s deploy token; "-" reads it from standard input' },
    'token-store': {
      type: 'text',
      choices: ['global', 'local'],
      default: 'global',
      help: 'keep the token in the global configuration, or in .env.local'
    },
    force: { type: 'switch', help: 'replace a file that is there' }
  },
  details:
    'Run it where your repository is, not in the directory of the build. Asks on a terminal for what is not given, and\n' +
    'lists the projects that the token may see. The file never holds a token, so it can be committed.\n' +
    'SVC_DEPLOY_TOKEN needs no storing: it is read whenever it is set.',
  examples: [
    ['init', 'ask for everything'],
    ['init --project proj_abcdefghijklmnop --server https://deploy.example.com --out dist', 'from a script'],
    ['init --env staging --project proj_ponmlkjihgfedcba', 'a second environment beside it']
  ],
  async run({ options }, context) {
    const { cwd, output } = context
    const env = options.env === undefined || options.env === plainEnvironment ? null : options.env
    const path = clientConfigPath(cwd, env)
    if (!options.force && (await exists(path))) {
      throw new Refusal('conflict', 'exists', `${path} is there already: --force replaces it`)
    }
    const { config, token, server } = await gather(options, context)
    await writeClientConfig(cwd, env, config)
    output.print(`Wrote ${path}`)
    if (token !== undefined) await storeToken(token, { config, server, env, store: options['token-store'] }, context)
    output.note(`Next: svc push${env === null ? '' : ` --env ${env}`}`)
    return exitCodes.success
  }
})

async function gather(given: Given, context: Context): Promise<Answers> {
  const { host, env, cwd } = context
  const isAsking = canAsk(host)
  if (given.project === undefined) mustAsk(host, 'The project is missing', 'give --project')
  const known = env['SVC_SERVER_URL'] || (await readConfig(locateHome(env, cwd))).serverUrl
  const serverUrl = given.server === undefined ? (isAsking ? await askServer(context, known) : undefined) : checkedServer(given.server)
  if (serverUrl === undefined && known === undefined) {
    context.output.warn(
      'no address of a server is configured: --server, SVC_SERVER_URL or "svc config:set serverUrl" gives one'
    )
  }
  const { projectId, token } = await gatherProject(given, serverUrl ?? known, context)
  const suggested = await suggestOutputDirectory(cwd)
  const outputDir = given.out ?? (isAsking ? await ask(host, 'Directory to pack', suggested) : defaultOutputDir)
  if (outputDir === defaultOutputDir && suggested !== defaultOutputDir) {
    context.output.warn(`the whole directory is packed; if "${suggested}" is what you build, give --out ${suggested}`)
  }
  return {
    config: { projectId, outputDir, ...(serverUrl !== undefined && { serverUrl }) },
    token,
    server: serverUrl ?? known
  }
}

function checkedServer(server: string): string {
  const serverUrl = parseServerUrl(server)
  if (serverUrl !== null) return serverUrl
  throw usage('--server', `--server cannot be "${server}": it is an address like "https://deploy.example.com"`)
}

/**
 * The project and its deploy token. On a terminal the project is chosen from those that a token may see: the one given,
 * one that is stored for the server, or one that is asked for.
 */
async function gatherProject(
  given: Given, server: string | undefined, context: Context
): Promise<{ projectId: string; token: string | undefined }> {
  const { host, env } = context
  const own = given.token === undefined ? undefined : await readSecret(host, '--token', given.token)
  if (!canAsk(host)) return { projectId: given.project as string, token: own }
  const known = own ?? (env['SVC_DEPLOY_TOKEN'] || (await storedAdminToken(server, context)))
  const { token, visible } = known === undefined ? await askToken(server, context) : await look(known, server, context)
  const projectId = await chooseProject(given.project, visible?.projects ?? null, context)
  // The admin token is not kept for a project: the project has its own.
  if (visible?.isAdmin) return { projectId, token: visible.projects.find(({ id }) => id === projectId)?.token }
  return { projectId, token: known === undefined || known === own ? token : undefined }
}

interface Looked {
  token: string | undefined
  /** null: the server does not say. */
  visible: Visible | null
  isWrong: boolean
}

/** Asks again after a token that the server does not know. */
async function askToken(server: string | undefined, context: Context): Promise<Looked> {
  for (;;) {
    const token = await askSecret(context.host, 'Token of the server or of the project (Enter: later)')
    if (token === '') return { token: undefined, visible: null, isWrong: false }
    const looked = await look(token, server, context)
    if (!looked.isWrong) return looked
  }
}

async function look(token: string, server: string | undefined, context: Context): Promise<Looked> {
  if (server === undefined) return { token, visible: null, isWrong: false }
  try {
    return { token, visible: await visibleProjects(server, token, context), isWrong: false }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    context.output.note(`The projects cannot be listed: ${error.message}.`)
    return { token, visible: null, isWrong: error.kind === 'unauthorized' }
  }
}

/** The admin token that is stored, or set, for this server. */
async function storedAdminToken(server: string | undefined, context: Context): Promise<string | undefined> {
  if (server === undefined) return undefined
  const { config } = await loadConfiguration(context, { flags: { server }, env: undefined, project: 'optional' })
  return config.adminToken !== null && maySend(config.adminToken, server) ? config.adminToken.value : undefined
}

interface Visible {
  isAdmin: boolean
  projects: Array<{ id: string; name: string; token?: string }>
}

/** The projects that a token may see; null: the server does not say. */
async function visibleProjects(serverUrl: string, value: string, { env }: Context): Promise<Visible | null> {
  const api = createApi(createClient({ serverUrl, token: { value, from: 'this command', origin: null }, env }))
  const holder = await api.whoami()
  if (holder?.role === 'admin') return { isAdmin: true, projects: await api.projects() }
  return holder?.project ? { isAdmin: false, projects: [holder.project] } : null
}

async function chooseProject(given: string | undefined, projects: Visible['projects'] | null, { host, output }: Context): Promise<string> {
  if (given !== undefined) return given
  const [first, ...others] = projects ?? []
  if (first === undefined) {
    if (projects !== null) output.note('The server has no projects yet: "svc projects create <name> --path <dir>" creates one.')
    return await ask(host, 'Id of the project')
  }
  if (others.length === 0) {
    output.note(`The project is ${first.name} (${first.id}).`)
    return first.id
  }
  output.note('The projects of this server:')
  const names = [first, ...others].map(({ id, name }) => ({ id, shown: oneLine(`${name} (${id})`) }))
  const answer = await choose(host, 'Which one', names.map(({ shown }) => shown))
  return (names.find(({ shown }) => shown === answer) ?? first).id
}

async function storeToken(
  token: string,
  { config, server, env, store }: { config: ClientConfig; server: string | undefined; env: string | null; store: string },
  context: Context
): Promise<void> {
  const { cwd, output } = context
  if (store === 'local') {
    output.print(`Wrote ${await writeDotenv(cwd, 'SVC_DEPLOY_TOKEN', token)}`)
    const hasOrigin = (await readDotenv(cwd, 'client')).values.SVC_DEPLOY_TOKEN_ORIGIN !== undefined
    if (server !== undefined || hasOrigin) {
      await writeDotenv(cwd, 'SVC_DEPLOY_TOKEN_ORIGIN', server === undefined ? '' : originOf(server))
    }
    if (!(await isIgnored(cwd, context.env))) output.warn('.env.local holds a token now: add it to .gitignore')
    return
  }
  const home = locateHome(context.env, cwd)
  const name = env === null ? config.projectId : `${config.projectId}:${env}`
  const written = await writeConfig(home, stored => storeProjectTokens(stored, { [name]: token }, server))
  output.print(`Wrote the token to ${home.configFile}, for ${projectTokenOrigin(written, name)}`)
}

/** Whether git would leave .env.local out; without git, by the .gitignore here. True where there is no repository. */
async function isIgnored(directory: string, env: Context['env']): Promise<boolean> {
  const isLeftOut = await isIgnoredByGit(directory, '.env.local', env)
  if (isLeftOut !== null) return isLeftOut
  if (!(await exists(join(directory, '.git')))) return true
  const rules = await readFile(join(directory, '.gitignore'), 'utf8').catch(() => '')
  return /^\/?(\.env\.local|\.env\*|\.env\.\*|\*\.local)\s*$/m.test(rules)
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false
  )
}
