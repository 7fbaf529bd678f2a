import { json } from '../http/core/route.js'
import { changeTopics, type ChangeTopic, type ChangeVersions } from '../model/changes.js'
import type { Handler } from './route.js'

const topics = Object.keys(changeTopics) as ChangeTopic[]

/** The store tables of all topics, each one once. */
export const changeTables = [...new Set(Object.values(changeTopics).flat())]

/**
 * Handler of `GET /api/changes`: the version of each list. With this one small request, an idle page finds out which of
 * its lists to reload. The response is 304 if nothing has changed since the ETag of the previous response.
 */
export function changesHandlers({ version }: { version(tables: readonly string[]): string }) {
  return {
    read: () => json(Object.fromEntries(topics.map(topic => [topic, version(changeTopics[topic])])) as ChangeVersions)
  } satisfies Record<string, Handler>
}
