import { Refusal } from '../../base/errors.js'
import { closest } from '../../base/text.js'
import type { LogSource } from '../../model/log-source.js'
import type { Project } from '../../model/project.js'

/** A log source with a name that is unique among the chosen ones: its label, with the project's name if necessary. */
export interface NamedSource {
  source: LogSource
  name: string
}

interface Known {
  sources: readonly LogSource[]
  projects: ReadonlyArray<Pick<Project, 'id' | 'name'>>
}

/**
 * Returns the log sources that a word names: by id, by label, by `project/label`, or all of a project by its id or
 * name. Commas separate several of these. Refuses an unknown word, and an ambiguous one with the candidates.
 */
export function namedSources(word: string, known: Known): NamedSource[] {
  const whole = meant(word, known)
  const found =
    whole.length > 0 || !word.includes(',')
      ? sourcesOf(word, whole, known)
      : word
          .split(',')
          .map(part => part.trim())
          .filter(Boolean)
          .flatMap(part => sourcesOf(part, meant(part, known), known))
  const sources = [...new Set(found)]
  const isPlain = new Set(sources.map(({ label }) => label)).size === sources.length
  return sources.map(source => ({ source, name: isPlain ? source.label : longName(source, known) }))
}

type Meaning = { source: LogSource } | { project: Known['projects'][number] }

function meant(word: string, { sources, projects }: Known): Meaning[] {
  const byId: Meaning[] = [
    ...sources.filter(({ id }) => id === word).map(source => ({ source })),
    ...projects.filter(({ id }) => id === word).map(project => ({ project }))
  ]
  if (byId.length > 0) return byId
  return [
    ...sources
      .filter(source => source.label === word || longName(source, { sources, projects }) === word)
      .map(source => ({ source })),
    ...projects.filter(({ name }) => name === word).map(project => ({ project }))
  ]
}

function sourcesOf(word: string, meanings: readonly Meaning[], known: Known): LogSource[] {
  const [only] = meanings
  if (only === undefined) throw unknown(word, known)
  if (meanings.length > 1) {
    const candidates = meanings.map(each =>
      'source' in each
        ? `${longName(each.source, known)} (log source ${each.source.id})`
        : `${each.project.name} (project ${each.project.id})`
    )
    throw new Refusal(
      'invalid',
      'ambiguous_source',
      `"${word}" is ambiguous. Use the id of one of: ${candidates.join(', ')}`
    )
  }
  if ('source' in only) return [only.source]
  const { id, name } = only.project
  const own = known.sources.filter(({ projectId }) => projectId === id)
  if (own.length > 0) return own
  throw new Refusal(
    'not_found',
    'no_sources',
    `Project "${name}" has no log sources. Add its log files in the panel, under Logs of the project`
  )
}

function unknown(word: string, known: Known): Refusal {
  const names = [...known.sources.map(({ label }) => label), ...known.projects.map(({ name }) => name)]
  const near = closest(word, names)
  const hint = near === undefined ? 'The panel lists the log sources under Logs' : `Did you mean "${near}"?`
  return new Refusal('not_found', 'unknown_source', `No log source and no project is called "${word}". ${hint}`)
}

function longName(source: LogSource, { projects }: Known): string {
  return `${projects.find(({ id }) => id === source.projectId)?.name ?? source.projectId}/${source.label}`
}
