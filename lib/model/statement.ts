/*
 * What a client signs about a release: an in-toto statement, version 1, about the tree of its files. The server reads it in
 * core/proof/statement.ts.
 */
import type { Readers } from './readers.js'
import type { Instant } from './scalars.js'

/** The type of a statement. */
export const statementVersion = 'https://in-toto.io/Statement/v1'
/** The type of what it says. */
export const predicateType = 'https://slsa.dev/provenance/v1'
/** What it says was built: the files of a push. */
export const pushBuildType = 'urn:svc:push:v1'
/** The namespace of SSH signatures (sshsig, "namespace"). */
export const signingNamespace = 'svc-deploy'
/** Maximum size of a statement. */
export const maxStatementBytes = 256 * 1024
/** Maximum number of signatures, and of one of them. */
export const maxSignatures = 16
/** Maximum size of one signature. */
export const maxSignatureBytes = 16 * 1024
/** Maximum size of a list of components. */
export const maxSbomBytes = 10 * 1024 * 1024
/** Time for which a statement is accepted unless its signer says otherwise, in days. */
export const statementDays = 30

/** The scripts of an upload, and their digests. */
export const statedScripts = ['preDeploy', 'postDeploy'] as const

/** What a statement says. */
export interface Statement {
  /** The name of what was signed. Only shown. */
  name: string
  treeSha256: string
  projectId: string
  /** Other projects to which the release may be promoted. */
  alsoFor: readonly string[]
  message: string | null
  /** SHA-256 of each script that the client sends. */
  scripts: Partial<Record<(typeof statedScripts)[number], string>>
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

/** What the record of a deployment says about its statement. The client claims it; only `signedBy` is verified. */
export interface StatementClaim {
  /** SHA-256 checksum of the statement. */
  sha256: string
  /** Grows with each release of the project. */
  sequence: number
  /** When it is accepted no longer. Null: it always is. */
  notAfter: Instant | null
  /** The program and the machine that made it. */
  builder: string | null
  /** SHA-256 checksum of the list of components. Null if there is none. */
  sbomSha256: string | null
}

/** A key that signed a release. @schema SignedBy */
export interface SignedBy {
  /** The id of the key, or its fingerprint if it is in the server's own list. */
  key: string
  name: string
  /** As ssh-keygen shows it. */
  fingerprint: string
}

/** Who reads them. */
export const claimReaders: Readers<StatementClaim> = {
  fields: {
    sha256: 'everybody',
    sequence: 'everybody',
    notAfter: 'everybody',
    builder: 'everybody',
    sbomSha256: 'everybody'
  }
}
/** Who reads them. */
export const signedByReaders: Readers<SignedBy[]> = {
  items: { fields: { key: 'everybody', name: 'everybody', fingerprint: 'everybody' } }
}

/** What is sent beside the files of a release. */
export interface Attached {
  statement?: string
  signatures?: readonly string[]
  /** The list of its components. */
  sbom?: Uint8Array
}
