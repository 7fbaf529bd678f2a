import { access, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Refusal } from '../../base/refusal.js'
import { clientConfigPath, parseServerUrl, writeClientConfig, type ClientConfig } from '../../config/client-config.js'
import { readDotenv, writeDotenv } from '../../config/dotenv.js'
import { locateHome, readConfig, writeConfig } from '../../config/home.js'
import { defaultServerUrl, originOf, projectTokenOrigin, storeProjectTokens } from '../../config/token-origin.js'
import { defaultOutputDir } from '../../config/precedence.js'
import { usage } from '../args.js'
import { defineCommand, exitCodes, type Context } from '../command.js'
import { isIgnoredByGit } from '../git.js'
import { ask, askSecret, canAsk, mustAsk, readSecret } from '../prompt.js'
import { sharedOptions } from '../common-options.js'

interface Answers {
  config: ClientConfig
  token: string | undefined
  /** The server that the token is for, if one is known. */
  server: string | undefined
}

export const command = defineCommand({
  operands: {},
  options: {
    project: { type: 'text', value: 'id', help: "the project's id" },
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
    'Asks on a terminal for what is not given. The file never holds a token, so it can be committed.\n' +
    'SVC_DEPLOY_TOKEN needs no storing: it is read whenever it is set.',
  examples: [
    ['init', 'ask for everything'],
    ['init --project proj_abcdefghijklmnop --server https://deploy.example.com --out dist', 'from a script'],
    ['init --env staging --project proj_ponmlkjihgfedcba', 'a second environment beside it']
  ],
  async run({ options }, context) {
    const { cwd, output } = context
    const env = options.env ?? null
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

async function gather(
  options: {
    project: string | undefined
    server: string | undefined
    out: string | undefined
    token: string | undefined
  },
  context: Context
): Promise<Answers> {
  const { host, env, cwd } = context
  const isAsking = canAsk(host)
  if (options.project === undefined) mustAsk(host, 'The project is missing', 'give --project')
  const known = env['SVC_SERVER_URL'] || (await readConfig(locateHome(env, cwd))).serverUrl
  const server =
    options.server ?? (isAsking ? await ask(host, 'Address of the server', known ?? defaultServerUrl) : undefined)
  const serverUrl = server === undefined ? undefined : parseServerUrl(server)
  if (serverUrl === null)
    throw usage('--server', `--server cannot be "${server}": it is an address like "https://deploy.example.com"`)
  if (serverUrl === undefined && known === undefined) {
    context.output.warn(
      'no address of a server is configured: --server, SVC_SERVER_URL or "svc config:set serverUrl" gives one'
    )
  }
  const projectId = options.project ?? (await ask(host, 'Id of the project'))
  const outputDir =
    options.out ?? (isAsking ? await ask(host, 'Directory to pack', defaultOutputDir) : defaultOutputDir)
  return {
    config: { projectId, outputDir, ...(serverUrl !== undefined && { serverUrl }) },
    token: await gatherToken(options.token, isAsking, context),
    server: serverUrl ?? known
  }
}

async function gatherToken(
  token: string | undefined,
  isAsking: boolean,
  { host, env }: Context
): Promise<string | undefined> {
  if (token !== undefined) return readSecret(host, '--token', token)
  if (!isAsking || env['SVC_DEPLOY_TOKEN']) return undefined
  return (await askSecret(host, 'Deploy token of the project (Enter: later)')) || undefined
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
