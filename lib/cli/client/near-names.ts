/* What to say about a name that nothing has: the nearest that exists, or where the names are listed. */
import { Refusal } from '../../base/errors.js'
import { closest, oneLine } from '../../base/text.js'
import { isSameName } from '../../model/project.js'
import type { Client } from './client.js'

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
