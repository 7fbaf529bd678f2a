import { access, readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { Refusal } from '../../base/errors.js'
import { oneLine, tokenOf } from '../../base/text.js'
import {
  type ClientConfig,
  clientConfigPath,
  maySend,
  originOf,
  parseServerUrl,
  plainEnvironment,
  projectTokenOrigin,
  storeProjectTokens,
  writeClientConfig
} from '../../base/config/client-config.js'
import { readDotenv, writeDotenv } from '../../base/config/files.js'
import { locateHome, readConfig, writeConfig } from '../../base/config/home.js'
import { defaultOutputDir } from '../../base/config/precedence.js'
import { isSameName, type ShownProject } from '../../model/project.js'
import { createClient } from '../client/client.js'
import { isProjectId, projectAmong, whoami } from '../client/named-project.js'
import { askServer, loadConfiguration } from '../client/session.js'
import { choice, type Context, defineCommand, type Family, option, toggle, usage } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { isIgnoredByGit } from '../pack/git.js'
import { describeProject } from '../project-options.js'
import { ask, askSecret, canAsk, choose, mustAsk, readTokenOption } from '../terminal/prompt.js'

/** The options of the command. */
interface Given {
  project: string | undefined
  server: string | undefined
  out: string | undefined
  path: string | undefined
  token: string | undefined
}

/** The options, completed by answers to questions. */
interface Answers {
  config: ClientConfig
  token: string | undefined
  /** Address of the server that the token is for; undefined if unknown. */
  server: string | undefined
}

/** The command that writes svc.config.json. */
export const commands = {
  init: defineCommand({
    fields: { deployPath: '--path', name: '--project' },
    options: {
      project: { ...sharedOptions.project, help: 'id or name of the project' },
      path: option('dir', 'target directory on the server: create the project if it does not exist'),
      out: option('dir', 'directory to pack'),
      server: sharedOptions.server,
      env: { ...sharedOptions.env, help: 'write svc.config.<name>.json' },
      token: option('token', 'deploy token of the project; "-" reads it from standard input'),
      'token-store': choice(['global', 'local'], 'where to store the token: the global configuration, or .env.local', {
        default: 'global'
      }),
      force: toggle('replace an existing file')
    },
    details:
      'Run this in the root of your repository, not in the build directory. On a terminal, svc asks for missing\n' +
      'values and lists the projects that the token can access. The file never contains a token, so you can commit\n' +
      'it. You do not have to store a token if SVC_DEPLOY_TOKEN is set.\n\n' +
      'The file contains the id of the project. After "svc login", its name is enough: svc looks it up on the server,\n' +
      'and stores the deploy token if the token is that of an admin. Such a token can also create the project, with --path\n' +
      'or on a terminal.',
    examples: [
      ['init', 'ask for all values'],
      ['init --project shop --server https://deploy.example.com --out dist', 'ask nothing, after "svc login"'],
      ['init --project shop --path /srv/www/shop --out dist', 'create the project, too'],
      ['init --env staging --project proj_ponmlkjihgfedcba', 'add a second environment']
    ],
    async run({ options }, context) {
      const { cwd, output } = context
      const env = options.env === undefined || options.env === plainEnvironment ? null : options.env
      const path = clientConfigPath(cwd, env)
      if (!options.force && (await exists(path)))
        throw new Refusal('conflict', 'exists', `${path} already exists. Use --force to replace it`)
      const { config, token, server } = await gather(options, context)
      await writeClientConfig(cwd, env, config)
      output.print(`Wrote ${path}`)
      if (token !== undefined) await storeToken(token, { config, server, env, store: options['token-store'] }, context)
      output.note(`Next: svc push${env === null ? '' : ` --env ${env}`}`)
    }
  })
} satisfies Family

async function gather(given: Given, context: Context): Promise<Answers> {
  const { host, env, cwd } = context
  const isAsking = canAsk(host)
  if (given.project === undefined) mustAsk(host, 'The project is missing', 'use --project')
  if (given.path !== undefined && given.project !== undefined && isProjectId(given.project))
    throw usage('--path', '--path is for a new project: give its name with --project, not an id')
  const known = env['SVC_SERVER_URL'] || (await readConfig(locateHome(env, cwd))).serverUrl
  const serverUrl =
    given.server === undefined ? (isAsking ? await askServer(context, known) : undefined) : checkedServer(given.server)
  if (serverUrl === undefined && known === undefined) {
    context.output.warn(
      'no server address is configured. Use --server, SVC_SERVER_URL or "svc config:set serverUrl" to set one'
    )
  }
  const { projectId, token } = await gatherProject(given, serverUrl ?? known, context)
  const suggested = await suggestOutputDirectory(cwd)
  const outputDir = given.out ?? (isAsking ? await ask(host, 'Directory to pack', suggested) : defaultOutputDir)
  if (outputDir === defaultOutputDir && suggested !== defaultOutputDir) {
    context.output.warn(
      `the whole directory will be packed. If your build is in "${suggested}", use --out ${suggested}`
    )
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
  throw usage('--server', `--server cannot be "${server}": it must be an address like "https://deploy.example.com"`)
}

/**
 * Determines the project and its deploy token. A token looks up a name, and the deploy token of the project: the one of
 * the options, one that is stored for the server, or, on a terminal, one that svc asks for.
 */
async function gatherProject(
  given: Given,
  server: string | undefined,
  context: Context
): Promise<{ projectId: string; token: string | undefined }> {
  const { host, env } = context
  const own = given.token === undefined ? undefined : await readTokenOption(host, '--token', given.token)
  const isAsking = canAsk(host)
  // An id and its token are all that a script needs, with or without a server.
  if (!isAsking && own !== undefined && isProjectId(given.project as string))
    return { projectId: given.project as string, token: own }
  const known = own ?? (env['SVC_DEPLOY_TOKEN'] || (await storedAdminToken(server, context)))
  const { token, visible } = known !== undefined ? await look(known, server, context) : await askToken(server, context)
  const creating = visible?.isAdmin
    ? (fields: NewProject) => createProject(fields, { server: server as string, token: token as string }, context)
    : null
  const made = await madeProject(given, { visible, creating }, context)
  if (made !== null) return { projectId: made.id, token: made.token ?? undefined }
  const word = given.project ?? (await chooseProject(visible?.projects ?? null, { creating }, context))
  if (typeof word !== 'string') return { projectId: word.id, token: word.token ?? undefined }
  const projectId = idOf(word, visible, { server, isToken: token !== undefined })
  // Never store the admin token for a project. Use the deploy token of the project instead.
  if (visible?.isAdmin)
    return { projectId, token: visible.projects.find(({ id }) => id === projectId)?.token ?? undefined }
  return { projectId, token: known === undefined || known === own ? token : undefined }
}

/**
 * Returns the id of a project that is named by its id or name. Refuses one that the token does not see. An id is taken as
 * it is if the server cannot be asked, or if the token is that of another project.
 */
function idOf(word: string, visible: Visible | null, asked: { server: string | undefined; isToken: boolean }): string {
  if (visible !== null && !(isProjectId(word) && visible.isOfProject)) return projectAmong(visible.projects, word).id
  if (isProjectId(word)) return word
  const [code, why] = !asked.isToken
    ? ['no_token', 'no token is stored. Run "svc login" first, use --token']
    : asked.server === undefined
      ? ['no_server', 'the address of the server is missing. Use --server']
      : ['no_token', 'the server did not list its projects. Check the address and the token']
  throw new Refusal('invalid', code, `Cannot look up the project "${oneLine(word)}": ${why}, or give its id`)
}

/** A token and the projects that it can access. */
interface Looked {
  token: string | undefined
  /** Null if the server did not list them. */
  visible: Visible | null
  /** Whether the server refused the token as unknown. */
  isWrong: boolean
}

/** Asks for a token until the server accepts it or the user skips the question. Nobody is asked without a terminal. */
async function askToken(server: string | undefined, context: Context): Promise<Looked> {
  while (canAsk(context.host)) {
    const token = await askSecret(context.host, 'Admin token or deploy token (press Enter to skip)')
    if (token.trim() === '') return { token: undefined, visible: null, isWrong: false }
    const looked = await look(tokenOf(token, 'the answer'), server, context)
    if (!looked.isWrong) return looked
  }
  return { token: undefined, visible: null, isWrong: false }
}

async function look(token: string, server: string | undefined, context: Context): Promise<Looked> {
  if (server === undefined) return { token, visible: null, isWrong: false }
  try {
    return { token, visible: await visibleProjects(server, token, context), isWrong: false }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    context.output.note(`Cannot list the projects: ${error.message}.`)
    return { token, visible: null, isWrong: error.kind === 'unauthorized' }
  }
}

/** Returns the admin token for this server from the environment or the global configuration. */
async function storedAdminToken(server: string | undefined, context: Context): Promise<string | undefined> {
  if (server === undefined) return undefined
  const { config } = await loadConfiguration(context, { flags: { server }, env: undefined, project: 'optional' })
  return config.adminToken !== null && maySend(config.adminToken, server) ? config.adminToken.value : undefined
}

/** The projects that a token can access. */
interface Visible {
  isAdmin: boolean
  /** Whether it is the deploy token of a project, which sees no other. */
  isOfProject: boolean
  projects: Array<{ id: string; name: string; deployPath?: string; token?: string | null }>
}

interface NewProject {
  name: string
  deployPath: string
}

/** Creates a project with the token of an admin; null: the token cannot. */
type Creating = ((fields: NewProject) => Promise<ShownProject>) | null

async function createProject(
  fields: NewProject,
  { server, token }: { server: string; token: string },
  { env, output }: Context
): Promise<ShownProject> {
  const client = createClient({ serverUrl: server, token: { value: token, from: 'this command', origin: null }, env })
  const { project } = await client.call('POST /api/projects', { body: fields })
  output.print(`Created ${describeProject(project)}`)
  return project
}

/**
 * Returns the project that `--path` creates. Null without `--path`, or if it exists with that target. Refuses a project of
 * that name with another target, and a token that cannot create one.
 */
async function madeProject(
  { project: name, path }: Given,
  { visible, creating }: { visible: Visible | null; creating: Creating },
  { host }: Context
): Promise<ShownProject | null> {
  if (path === undefined) return null
  const asked = name ?? (await ask(host, 'Name of the new project'))
  const known = visible?.projects.find(project => isSameName(project.name, asked))
  if (known === undefined && creating !== null) return creating({ name: asked, deployPath: path })
  if (known?.deployPath === path && name !== undefined) return null
  const why =
    known === undefined
      ? 'that needs the token of an admin. Run "svc login" first, or use --token'
      : `it exists with the target "${oneLine(known.deployPath ?? '')}". Use it without --path, or choose another name`
  const code = known === undefined ? 'no_token' : 'name_taken'
  throw new Refusal(
    known === undefined ? 'invalid' : 'conflict',
    code,
    `Cannot create the project "${oneLine(asked)}": ${why}`
  )
}

/** Returns the projects that a token can access, or null if the server does not say. */
async function visibleProjects(serverUrl: string, value: string, { env }: Context): Promise<Visible | null> {
  const client = createClient({ serverUrl, token: { value, from: 'this command', origin: null }, env })
  const holder = await whoami(client)
  const isAdmin = holder?.role === 'admin'
  if (isAdmin || holder?.token) return { isAdmin, isOfProject: false, projects: await client.call('GET /api/projects') }
  return holder?.project ? { isAdmin, isOfProject: true, projects: [holder.project] } : null
}

const newProject = 'a new project'

/** Returns the id of the project that the user chooses, or the one that is created instead. */
async function chooseProject(
  projects: Visible['projects'] | null,
  { creating }: { creating: Creating },
  context: Context
): Promise<string | ShownProject> {
  const { host, output } = context
  const [first, ...others] = projects ?? []
  if (first === undefined) {
    if (creating === null) return await ask(host, 'Project id')
    output.note('The server has no projects yet.')
    return await askNewProject(creating, context)
  }
  if (others.length === 0 && creating === null) {
    output.note(`The project is ${first.name} (${first.id}).`)
    return first.id
  }
  output.note('Projects on this server:')
  const names = [first, ...others].map(({ id, name }) => ({ id, shown: oneLine(`${name} (${id})`) }))
  const choices = names.map(({ shown }) => shown)
  const answer = await choose(host, 'Choose a project', creating === null ? choices : [...choices, newProject])
  const chosen = names.find(({ shown }) => shown === answer)
  if (chosen === undefined && creating !== null) return await askNewProject(creating, context)
  return (chosen ?? first).id
}

/** Asks for what a new project needs until the server accepts it. */
async function askNewProject(
  creating: NonNullable<Creating>,
  { host, cwd, output }: Pick<Context, 'host' | 'cwd' | 'output'>
): Promise<ShownProject> {
  let name = basename(cwd)
  for (;;) {
    name = await ask(host, 'Name of the new project', name)
    const deployPath = await ask(host, 'Target directory on the server (absolute)')
    try {
      return await creating({ name, deployPath })
    } catch (error) {
      if (!(error instanceof Refusal) || error.kind === 'unauthorized') throw error
      output.note(`${error.message}.`)
    }
  }
}

async function storeToken(
  token: string,
  {
    config,
    server,
    env,
    store
  }: { config: ClientConfig; server: string | undefined; env: string | null; store: string },
  context: Context
): Promise<void> {
  const { cwd, output } = context
  if (store === 'local') {
    output.print(`Wrote ${await writeDotenv(cwd, 'SVC_DEPLOY_TOKEN', token)}`)
    const hasOrigin = (await readDotenv(cwd, 'client')).values.SVC_DEPLOY_TOKEN_ORIGIN !== undefined
    if (server !== undefined || hasOrigin)
      await writeDotenv(cwd, 'SVC_DEPLOY_TOKEN_ORIGIN', server === undefined ? '' : originOf(server))
    if (!(await isIgnored(cwd, context.env))) output.warn('.env.local now contains a token. Add it to .gitignore')
    return
  }
  const home = locateHome(context.env, cwd)
  const name = env === null ? config.projectId : `${config.projectId}:${env}`
  const written = await writeConfig(home, stored => storeProjectTokens(stored, { [name]: token }, server))
  output.print(`Stored the token for ${projectTokenOrigin(written, name)} in ${home.configFile}`)
}

/** Returns whether git ignores .env.local; without git, whether .gitignore names it. True outside of a repository. */
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

/** Directories that common build tools write to, the most likely first. */
const candidates = ['dist', 'build', 'out', 'public', '_site']

/** Suggests the directory to pack: the first common build directory that is not empty, else the whole directory. */
export async function suggestOutputDirectory(directory: string): Promise<string> {
  for (const name of candidates) {
    const entries = await readdir(`${directory}/${name}`).catch(() => [])
    if (entries.length > 0) return name
  }
  return defaultOutputDir
}
