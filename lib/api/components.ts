import { line } from '../base/fields.js'
import { json } from '../http/core/route.js'
import { type Handler, queryText } from './route.js'
import type { ApiServices } from './services.js'

const text = line({ min: 1, max: 200, trim: true })

/** Handler of `GET /api/components`: where a component is in place. */
export async function componentHandlers({ projects, findProject, ...doors }: ApiServices) {
  const components = await doors.components()
  return {
    search: async request => {
      const { actor, query, signal } = request
      const version = queryText(query, 'version')
      const asked = {
        name: text(queryText(query, 'name'), 'name'),
        version: version === undefined ? undefined : text(version, 'version')
      }
      const own = actor.projectId === null ? undefined : findProject(actor.projectId)
      const seen = own === undefined ? projects.list({ scope: actor.projects }) : [own]
      const searched = [...seen].sort((one, other) => (one.name < other.name ? -1 : 1))
      const answer = await components.search(searched, asked, signal)
      if (own === undefined) return json(answer)
      // A deploy token reads its deployments, not where the files are.
      return json({ ...answer, components: answer.components.map(each => ({ ...each, target: null })) })
    }
  } satisfies Record<string, Handler>
}
