/* The statement that a client signs about a release: `svc push` and the panel write the same one. */

/** The type of a statement. */
export const statementVersion = 'https://in-toto.io/Statement/v1'
/** The type of what it says. */
export const predicateType = 'https://slsa.dev/provenance/v1'
/** What it says was built: the files of a push. */
export const pushBuildType = 'urn:svc:push:v1'
/** The type of a statement as a payload of an envelope. */
export const statementType = 'application/vnd.in-toto+json'
/** Time for which a statement is accepted unless its signer says otherwise, in days. */
export const statementDays = 30

/** What a statement says. */
export interface StatedRelease {
  /** The name of what was signed. Only shown. */
  name: string
  treeSha256: string
  projectId: string
  /** Other projects to which the release may be promoted. */
  alsoFor: readonly string[]
  message: string | null
  /** SHA-256 of each script that the client sends. */
  scripts: { preDeploy?: string; postDeploy?: string }
  /** Names of the variables that the client sends. */
  env: readonly string[]
  /** When it is accepted no longer. */
  notAfter: string | null
  /** Grows with each release of the project. */
  sequence: number
  /** The program and the machine that made it, as the signer says. */
  builder: string | null
  sbomSha256: string | null
}

/** What a client states beside what the server checks: where the files come from. */
export interface StatedOrigin {
  commit: string | null
  repository: string | null
  /** The run of a continuous integration system. */
  invocationId: string | null
  startedOn: string
}

const dayMs = 86_400_000

/** Returns what follows from the time of a statement: it is accepted for some days, and a later one has a higher sequence. */
export function statedTimes(nowMs: number, days = statementDays): Pick<StatedRelease, 'notAfter' | 'sequence'> {
  return { notAfter: new Date(nowMs + days * dayMs).toISOString(), sequence: Math.floor(nowMs / 1000) }
}

/** Returns the text of a statement. Keys are in a fixed order. */
export function statementText(statement: StatedRelease, origin: StatedOrigin): string {
  const { name, treeSha256, projectId, alsoFor, message, scripts, env, notAfter, sequence, builder } = statement
  const { commit, repository, invocationId, startedOn } = origin
  const uri = repository === null ? 'git' : `git+${repository}`
  const dependencies = commit === null ? [] : [{ uri, digest: { gitCommit: commit } }]
  const byproducts =
    statement.sbomSha256 === null ? [] : [{ name: 'sbom.json', digest: { sha256: statement.sbomSha256 } }]
  return JSON.stringify({
    _type: statementVersion,
    subject: [{ name, digest: { sha256: treeSha256 } }],
    predicateType,
    predicate: {
      buildDefinition: {
        buildType: pushBuildType,
        externalParameters: {
          projectId,
          ...(alsoFor.length > 0 && { alsoFor }),
          ...(message !== null && { message }),
          ...(Object.keys(scripts).length > 0 && { scripts }),
          ...(env.length > 0 && { env }),
          ...(notAfter !== null && { notAfter }),
          sequence
        },
        ...(dependencies.length > 0 && { resolvedDependencies: dependencies })
      },
      runDetails: {
        builder: { id: builder ?? 'svc' },
        metadata: { ...(invocationId !== null && { invocationId }), startedOn },
        ...(byproducts.length > 0 && { byproducts })
      }
    }
  })
}

/**
 * Returns what comes before the payload in what a signature of an envelope covers ("PAE", DSSE protocol). `typeBytes` is the
 * size of the type.
 */
export function envelopeHead(payloadType: string, typeBytes: number, payloadBytes: number): string {
  return `DSSEv1 ${typeBytes} ${payloadType} ${payloadBytes} `
}
