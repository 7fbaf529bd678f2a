import { invalid } from '../base/refusal.js'
import { json } from '../http/core/route.js'
import { searchTypes } from '../search/search.js'
import type { Search } from '../search/search.js'
import { oneOf } from '../base/fields.js'
import { queryLimit } from './query.js'
import type { Handler } from './route.js'

const maxQueryLength = 200
const readType = oneOf(searchTypes)

/** Handler of `GET /api/search`: searches projects, deployments, log sources, the audit log and settings. */
export function searchHandlers({ search }: { search: Search }) {
  return {
    find: ({ query }) => {
      const q = (query.get('q') ?? '').trim()
      if (q.length > maxQueryLength)
        throw invalid('q', `"q" is too long: at most ${maxQueryLength} characters are allowed`)
      const types = (query.get('types') ?? '')
        .split(',')
        .filter(Boolean)
        .map(type => readType(type, 'types'))
      const limit = queryLimit(query, 'limit', { fallback: 5, max: 50 })
      return json(search.find({ q, types: types.length === 0 ? searchTypes : types, limit }))
    }
  } satisfies Record<string, Handler>
}
