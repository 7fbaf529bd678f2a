import { json } from '../http/route.js'
import { changeTopics } from '../model/changes.js'
import type { ChangeTopic, ChangeVersions } from '../model/changes.js'
import type { Handler } from './route.js'

const topics = Object.keys(changeTopics) as ChangeTopic[]

/** The store's tables of all topics. */
export const changeTables = [...new Set(Object.values(changeTopics).flat())]

/**
 * `GET /api/changes`: one small request tells an idle page whether to load any of its lists again. Answers 304 if nothing
 * has changed since the ETag of the last answer.
 */
export function changesHandlers({ version }: { version(tables: readonly string[]): string }) {
  return {
    read: () => json(Object.fromEntries(topics.map(topic => [topic, version(changeTopics[topic])])) as ChangeVersions)
  } satisfies Record<string, Handler>
}
