/* What a client has sent about a release beside its files: the statement, its signatures, the list of its components. */
import { readFile, stat } from 'node:fs/promises'
import { sha256 } from '../base/digests.js'
import { notFound, nullIfMissing, Refusal } from '../base/errors.js'
import { readSbom } from '../model/sbom.js'
import type { Bytes } from '../model/scalars.js'
import { findAttestation } from '../core/store/tables/signing-keys.js'
import type { DeployFiles } from './files.js'
import type { DeployNeeds } from './needs.js'

/** One of these files. @schema Attestation */
export interface AttestationFile {
  /** `statement.json`, `1.sig` and so on, `sbom.json`. */
  name: string
  /** Its media type. */
  type: string
  bytes: Bytes
  /** SHA-256 checksum in hexadecimal. */
  sha256: string
  /** Number of components, of a list of components. */
  components?: number
}

type File = AttestationFile & { content: Uint8Array }

/** Maximum number of lists of which it is remembered what they are: pages ask again and again, and a large one takes 0.1 s. */
const maxRemembered = 1000

/** Creates the access to these files. */
export function createAttestations({ store, files }: Pick<DeployNeeds, 'store'> & { files: DeployFiles }) {
  const remembered = new Map<string, { changedMs: number; file: AttestationFile }>()

  function sent(deployId: string): File[] {
    const { statement, signatures = [] } = findAttestation(store, deployId) ?? {}
    return [
      ...(statement === undefined ? [] : [fileOf('statement.json', 'application/vnd.in-toto+json', statement)]),
      ...signatures.map((text, index) => fileOf(`${index + 1}.sig`, 'text/plain', text))
    ]
  }

  async function readComponents(deployId: string): Promise<File> {
    const content = await readFile(files.sbom(deployId))
    const components = countIn(content)
    return { ...fileOf(sbomName, 'application/json', content), ...(components !== null && { components }) }
  }

  /** Returns what the list of components is; null: there is none. */
  async function componentsOf(deployId: string): Promise<AttestationFile | null> {
    const stats = await stat(files.sbom(deployId)).catch(nullIfMissing)
    if (stats === null) return null
    const known = remembered.get(deployId)
    if (known?.changedMs === stats.ctimeMs) return known.file
    const { content: _, ...file } = await readComponents(deployId)
    const [oldest] = remembered.keys()
    if (remembered.size >= maxRemembered && oldest !== undefined) remembered.delete(oldest)
    remembered.set(deployId, { changedMs: stats.ctimeMs, file })
    return file
  }

  return {
    async attestations(deployId: string): Promise<AttestationFile[]> {
      const components = await componentsOf(deployId)
      return [...sent(deployId).map(({ content: _, ...file }) => file), ...(components === null ? [] : [components])]
    },

    async attestation(deployId: string, name: string): Promise<File> {
      const isList = name === sbomName && files.sbomIfAny(deployId) !== null
      const found = isList ? await readComponents(deployId) : sent(deployId).find(each => each.name === name)
      if (found === undefined) throw notFound('Attestation', name)
      return found
    }
  }
}

const sbomName = 'sbom.json'

/** Returns the number of components; null: an earlier svc kept the list, and this one cannot read it. */
function countIn(content: Uint8Array): number | null {
  try {
    return readSbom(content).components.length
  } catch (error) {
    if (error instanceof Refusal) return null
    throw error
  }
}

function fileOf(name: string, type: string, given: string | Uint8Array): File {
  const content = Buffer.from(given as Uint8Array)
  return { name, type, bytes: content.length, sha256: sha256(content).toString('hex'), content }
}
