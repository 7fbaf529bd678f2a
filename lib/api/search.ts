import { invalid } from '../base/errors.js'
import type { Caller } from '../auth/bearer.js'
import { includesRole, type AccessRole } from '../model/access.js'
import { json } from '../http/core/route.js'
import { searchTypes, type SearchType, type Search } from '../search/search.js'
import { oneOf } from '../base/fields.js'
import { queryLimit } from './query.js'
import type { Handler } from './route.js'

const maxQueryLength = 200
const readType = oneOf(searchTypes)

/** Handler of `GET /api/search`: searches projects, deployments, log sources, the audit log and settings. */
export function searchHandlers({ search }: { search: Search }) {
  return {
    find: ({ query, actor }) => {
      const q = (query.get('q') ?? '').trim()
      if (q.length > maxQueryLength)
        throw invalid('q', `"q" is too long: at most ${maxQueryLength} characters are allowed`)
      const types = (query.get('types') ?? '')
        .split(',')
        .filter(Boolean)
        .map(type => readType(type, 'types'))
      const limit = queryLimit(query, 'limit', { fallback: 5, max: 50 })
      const seen = searchTypes.filter(type => maySearch(actor, type))
      const wanted = types.length === 0 ? seen : seen.filter(type => types.includes(type))
      return json(search.find({ q, types: wanted, limit, scope: actor.projects }))
    }
  } satisfies Record<string, Handler>
}

/** Whether a caller may read what a type of results shows: settings and the whole audit log are for few. */
function maySearch({ token, role, projects }: Caller, type: SearchType): boolean {
  if (token === undefined) return true
  if (type === 'settings') return role === 'admin'
  return type !== 'audit' || (projects === null && includesRole(role as AccessRole, 'operator'))
}
