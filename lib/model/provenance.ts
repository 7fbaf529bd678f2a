/** The longest `provenance` field that an upload may carry, in bytes of JSON. */
export const maxProvenanceBytes = 16 * 1024

/** A continuous integration run, as its system names it. */
export interface CiRun {
  /** The system's own name, for example "GitHub Actions". */
  system: string
  /** The number that people see, for example "42" or "42.1". */
  run: string | null
  /** The address of the run's page: http or https, without credentials. */
  url: string | null
  /** Who started the run, as the system names them. */
  actor: string | null
}

/**
 * Where a deployment comes from, as its client claims: the server checks the form of each value, not its truth. Values
 * that the client does not know are null.
 */
export interface Provenance {
  /** What sent the archive. */
  source: 'cli' | 'panel'
  /** The full id of the git commit: 40 or 64 hexadecimal digits. */
  commit: string | null
  branch: string | null
  tag: string | null
  /** The author's name, without the address. */
  author: string | null
  /** The first line of the commit's message. */
  subject: string | null
  /** Whether tracked files differed from the commit. */
  dirty: boolean | null
  /** The repository's address, without credentials. */
  repository: string | null
  /** Null if no continuous integration system ran the command. */
  ci: CiRun | null
  /** Who sent it from the panel, for example "admin"; null for other sources. */
  by: string | null
}
