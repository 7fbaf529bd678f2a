/** What stands in one cell though it is more than one code point, each text once. */
export interface Clusters {
  /** The number of the text; null: there are too many already, or it is too long. */
  idOf(text: string): number | null
  textOf(id: number): string
}

/** Texts of one session; what is beyond them loses its combining marks. */
const maxClusters = 65_536
/** UTF-16 units: a family of emoji with skin colours has 20. */
const maxClusterLength = 32

/** An empty table. */
export function createClusters(): Clusters {
  const texts: string[] = []
  const ids = new Map<string, number>()
  return {
    idOf(text) {
      const known = ids.get(text)
      if (known !== undefined) return known
      if (texts.length === maxClusters || text.length > maxClusterLength) return null
      ids.set(text, texts.length)
      return texts.push(text) - 1
    },
    textOf: id => texts[id] as string
  }
}
