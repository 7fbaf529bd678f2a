/** The topics that a page can follow. Each stands for tables of the store. */
export const changeTopics = {
  projects: ['projects', 'projectTags', 'categories', 'tags'],
  deployments: ['deployments', 'projects'],
  locks: ['locks', 'projects'],
  logSources: ['logSources', 'projects'],
  audit: ['audit'],
  settings: ['settings'],
  sessions: ['sessions']
} as const satisfies Record<string, readonly string[]>

/** The name of a topic. */
export type ChangeTopic = keyof typeof changeTopics

/**
 * The answer of `GET /api/changes`: a text for each topic. It differs from the previous text if something in the topic
 * may have changed.
 */
export type ChangeVersions = Record<ChangeTopic, string>
