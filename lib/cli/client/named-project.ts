/* Projects on the command line: by id, or by the name that the server knows. */
import { Refusal } from '../../base/errors.js'
import { oneLine, closest } from '../../base/text.js'
import type { TokenHolder } from '../../model/access.js'
import { isSameName, type ShownProject } from '../../model/project.js'
import { usage } from '../command.js'
import { ifKnown } from './answer.js'
import type { Client } from './client.js'

/** Returns the role of the token, or null if the server is too old to say. */
export function whoami(
  client: Pick<Client, 'call'>,
  { signal }: { signal?: AbortSignal | undefined } = {}
): Promise<TokenHolder | null> {
  return ifKnown(client.call('GET /api/auth/whoami', { signal }), ({ role }) => typeof role === 'string')
}

/** Returns whether a word is an id, not a name. */
export function isProjectId(word: string): boolean {
  return /^proj_\w+$/.test(word)
}

/** Returns the project with an id or a name. Refuses an unknown name, and a name that several projects have. */
export async function findProject(client: Pick<Client, 'call'>, word: string): Promise<ShownProject> {
  return isProjectId(word)
    ? client.call('GET /api/projects/:id', { id: word })
    : theOnly(await client.call('GET /api/projects'), word)
}

/** Returns the project with a name, whatever its case. Refuses an unknown name, and one that several projects have. */
function theOnly<P extends { id: string; name: string }>(projects: readonly P[], name: string): P {
  const same = projects.filter(project => isSameName(project.name, name))
  const exact = same.filter(project => project.name === name)
  const [found, ...others] = exact.length > 0 ? exact : same
  if (found === undefined) throw noProject(name, projects)
  if (others.length === 0) return found
  const ids = [found, ...others].map(({ id }) => id).join(', ')
  throw usage(name, `Several projects have the name "${name}". Use one of their ids: ${ids}`)
}

/** Returns the project with an id or a name among those that a token can access. Refuses as `findProject`. */
export function projectAmong<P extends { id: string; name: string }>(projects: readonly P[], word: string): P {
  if (!isProjectId(word)) return theOnly(projects, word)
  const found = projects.find(({ id }) => id === word)
  if (found === undefined) throw noProject(word, projects)
  return found
}

/**
 * Returns the id of a project that is named by its id or name, with any token. Refuses as `findProject`. A deploy token
 * cannot list projects: the server refuses it another id than that of its own.
 */
export async function projectIdOfWord(client: Pick<Client, 'call'>, word: string): Promise<string> {
  const holder = await whoami(client)
  const own = holder?.project ?? null
  const isDeployToken = own !== null || holder?.role === 'global'
  if (!isDeployToken) return (await findProject(client, word)).id
  if (isProjectId(word)) return word
  if (own !== null) return theOnly([own], word).id
  throw usage(word, `The global deploy token cannot look up names: give the id of the project "${oneLine(word)}"`)
}

/** Returns the names of the projects by id. */
export async function projectNamesOf(client: Client): Promise<ReadonlyMap<string, string>> {
  return new Map((await client.call('GET /api/projects')).map(({ id, name }) => [id, name]))
}

/** Returns the refusal of a project that is unknown among those that exist. */
export function noProject(word: string, projects: ReadonlyArray<{ name: string }>): Refusal {
  const names = projects.map(({ name }) => name)
  const advice = nearOr(word, names, '"svc list" shows ids and names')
  const sentence = oneLine(`Project not found: "${word}". ${advice}`)
  return new Refusal('not_found', 'no_such_project', sentence)
}

/* What to say about a name that nothing has: the nearest that exists, or where the names are listed. */

/** Returns the nearest of the names as a question, else the advice. */
export function nearOr(word: string, names: readonly string[], advice: string): string {
  const near = closest(word, names)
  return near === undefined ? advice : `Did you mean "${near}"?`
}

/** A record that the server did not find: what it is, and the word for it. Sentences with an advice do not match. */
const notFound = /^(Project|Node|Rollout|Deployment|Enrollment|Unfinished target) not found: "([^"]+)"$/

/** Where the records are listed of which people know no names: those of a project, or all. */
const listing: Readonly<Record<string, { ofProject?: string; all?: string }>> = {
  Rollout: { ofProject: 'svc rollout list' },
  Deployment: { ofProject: 'svc status' },
  Enrollment: { all: 'svc fleet enrollments' },
  'Unfinished target': { all: 'svc doctor' }
}

/**
 * Returns the client, whose refusals of an unknown name say what is near: another name, or that it is the name of a project
 * where the id of a deployment or a rollout belongs. `open` says what the server says.
 */
export function withNearNames(client: Client): Client {
  async function adviceFor(noun: string, word: string): Promise<string | null> {
    if (noun === 'Node') {
      const { nodes } = await client.call('GET /api/nodes')
      return nearOr(
        word,
        nodes.map(({ name }) => name),
        '"svc fleet nodes" shows ids and names'
      )
    }
    const { ofProject, all } = listing[noun] ?? {}
    if (all !== undefined) return `"${all}" shows the ids`
    const projects = await client.call('GET /api/projects')
    const names = projects.map(({ name }) => name)
    if (noun === 'Project') return nearOr(word, names, '"svc list" shows ids and names')
    const own = projects.find(({ name, id }) => isSameName(name, word) || id === word)
    return own === undefined ? null : oneLine(`It is a project: "${ofProject} ${own.name}" shows the ids`)
  }

  async function explain(error: unknown): Promise<never> {
    const [, noun, word] = error instanceof Refusal ? (notFound.exec(error.message) ?? []) : []
    if (noun === undefined || word === undefined) throw error
    const advice = await adviceFor(noun, word).catch(() => null)
    if (advice !== null) (error as Refusal).message += `. ${advice}`
    throw error
  }

  return {
    ...client,
    json: call => client.json<never>(call).catch(explain),
    ask: (route, given) => client.ask(route, given).catch(explain),
    call: ((...asked: Parameters<Client['call']>) => client.call(...asked).catch(explain)) as Client['call']
  }
}
