/*
 * Lists of components (SBOM) that clients send with a release: CycloneDX 1.x, SPDX 2.x and SPDX 3.0, as JSON. svc passes
 * them through. It reads the kind, and of each component name, version and package URL; nothing else is believed.
 */
import { Refusal } from '../base/errors.js'
import { oneLine } from '../base/text.js'
import { maxSbomBytes } from './statement.js'
import type { Instant } from './scalars.js'

/** A component of a release. @schema Component */
export interface Component {
  /** The name, after the name of its group and a slash. */
  name: string
  version: string | null
  /** The package URL: `pkg:npm/lodash@4.17.21`. */
  purl: string | null
}

/** What a list of components says. */
export interface Sbom {
  kind: 'CycloneDX' | 'SPDX'
  /** The version of its format. */
  version: string
  components: Component[]
}

/** A component in a release that is in place. @schema FoundComponent */
export interface FoundComponent extends Component {
  projectId: string
  projectName: string
  /** The deployment whose files are in place. */
  deployId: string
  /** When it has finished. */
  since: Instant
  /** The target directory. Null if the project is on nodes. */
  target: string | null
  /** The names of some of the nodes that have it. */
  nodes: string[]
  /** How many nodes have it. */
  nodeCount: number
}

/** The answer to a search for components. */
export interface ComponentSearch {
  success: true
  components: FoundComponent[]
  /** Whether there are more. */
  truncated: boolean
  /** Number of releases that were searched. */
  searched: number
  /** Projects whose release has no list of components, so that nothing is known of it. */
  unknown: Array<{ projectId: string; projectName: string; deployId: string }>
}

/** A list with more components is refused: 10 MiB contain about so many. */
export const maxComponents = 100_000
/** Longer texts are cut. */
const maxTextLength = 1000

type Json = Record<string, unknown>

/** Reads a list of components. Refuses (`invalid`) invalid_sbom, and (`too_large`) sbom_too_large. */
export function readSbom(bytes: Uint8Array): Sbom {
  if (bytes.length > maxSbomBytes)
    throw new Refusal(
      'too_large',
      'sbom_too_large',
      `The list of components is too large: ${bytes.length} bytes, at most ${maxSbomBytes}`
    )
  const value = parse(bytes)
  const { bomFormat, specVersion, spdxVersion } = value
  if (bomFormat === 'CycloneDX') {
    const components = collect(value['components'], ({ components }) => components, ofCycloneDx)
    return { kind: 'CycloneDX', version: text(specVersion) ?? '', components }
  }
  if (typeof spdxVersion === 'string' && spdxVersion.startsWith('SPDX-'))
    return { kind: 'SPDX', version: spdxVersion.slice(5), components: collect(value['packages'], none, ofSpdx) }
  const graph = value['@graph']
  if (Array.isArray(graph) && String(value['@context']).includes('spdx.org'))
    return { kind: 'SPDX', version: '3.0', components: collect(graph, none, ofSpdx3) }
  throw invalid('it is neither CycloneDX nor SPDX in JSON')
}

function parse(bytes: Uint8Array): Json {
  let value: unknown
  try {
    value = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes))
  } catch (error) {
    throw invalid('it is not valid JSON', error)
  }
  if (isObject(value)) return value
  throw invalid('it is not a JSON object')
}

/** Reads a list whose members may contain further ones. Without recursion: they may be nested as deep as JSON can be. */
function collect(list: unknown, inner: (value: Json) => unknown, read: (value: Json) => Component | null): Component[] {
  const found: Component[] = []
  const lists = [list]
  let seen = 0
  for (let each = lists.pop(); lists.length > 0 || each !== undefined; each = lists.pop()) {
    if (!Array.isArray(each)) continue
    for (const value of each) {
      if (++seen > maxComponents)
        throw new Refusal(
          'too_large',
          'sbom_too_large',
          `The list of components is too large: more than ${maxComponents} components`
        )
      if (!isObject(value)) continue
      const component = read(value)
      if (component !== null) found.push(component)
      const more = inner(value)
      if (more !== undefined) lists.push(more)
    }
  }
  return found
}

const none = (): undefined => undefined

function ofCycloneDx({ group, name, version, purl }: Json): Component | null {
  const [own, above] = [text(name), text(group)]
  if (own === null) return null
  return { name: above === null ? own : `${above}/${own}`, version: text(version), purl: text(purl) }
}

function ofSpdx({ name, versionInfo, externalRefs }: Json): Component | null {
  const own = text(name)
  if (own === null) return null
  const refs = Array.isArray(externalRefs) ? externalRefs.filter(isObject) : []
  const purl = refs.find(({ referenceType }) => referenceType === 'purl')
  return { name: own, version: text(versionInfo), purl: text(purl?.['referenceLocator']) }
}

function ofSpdx3(value: Json): Component | null {
  const own = value['type'] === 'software_Package' ? text(value['name']) : null
  if (own === null) return null
  return { name: own, version: text(value['software_packageVersion']), purl: text(value['software_packageUrl']) }
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? oneLine(value.slice(0, maxTextLength)) : null
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function invalid(why: string, cause?: unknown): Refusal {
  const sentence = `The list of components is not valid: ${why}`
  return new Refusal('invalid', 'invalid_sbom', sentence, { field: 'sbom', cause })
}

/** What is searched. */
export interface ComponentQuery {
  /** A part of the name or of the package URL, whatever its case. */
  name: string
  /** The version, or its beginning up to a dot or another sign; undefined: any. */
  version?: string | undefined
}

/** Returns whether a component is what is searched. */
export function matchesComponent(component: Component, { name, version }: ComponentQuery): boolean {
  if (version !== undefined && !isVersion(component.version, version)) return false
  const wanted = name.toLowerCase()
  return component.name.toLowerCase().includes(wanted) || component.purl?.toLowerCase().includes(wanted) === true
}

function isVersion(own: string | null, wanted: string): boolean {
  if (own === null || !own.startsWith(wanted)) return false
  const next = own[wanted.length]
  return next === undefined || !/[0-9A-Za-z]/.test(next)
}
