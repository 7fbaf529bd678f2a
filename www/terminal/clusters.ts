/** A table of the texts that have several code points but share one cell. Each text is stored once. */
export interface Clusters {
  /** Returns the number of a text, or null if the table is full or the text is too long. */
  idOf(text: string): number | null
  /** Returns the text of a number. */
  textOf(id: number): string
}

/** Maximum number of texts per session. Further texts lose their combining marks. */
const maxClusters = 65_536
/** Maximum length in UTF-16 units. A family of emoji with skin colours has 20. */
const maxClusterLength = 32

/** Creates an empty table. */
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
