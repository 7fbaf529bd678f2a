/* Schemas of the search. */
import { searchTypes, type SearchItem, type SearchResult } from '../../../search/search.js'
import { integer, list, oneOf, record, text } from '../schema.js'
import { deployPath, projectId } from './common.js'

/** The result of a search. */
export const searchResult = record<SearchResult>({
  q: text('shop'),
  groups: list(
    record<SearchResult['groups'][number]>({
      type: oneOf(searchTypes),
      total: integer(1),
      items: list(
        record<SearchItem>({
          id: projectId,
          title: text('Shop'),
          subtitle: deployPath,
          href: text('/projects/proj_1a2b3c4d5e6f7a8b')
        })
      )
    })
  )
})
