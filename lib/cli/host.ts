/** The part of `process` that the command line uses. */
export interface Host {
  env: Readonly<Record<string, string | undefined>>
  cwd(): string
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  on(signal: NodeJS.Signals, listener: () => void): unknown
  off(signal: NodeJS.Signals, listener: () => void): unknown
  exit(code: number): void
}

type Environment = Host['env']

/** Whether the command runs in a CI job: `CI` is set, as every common system does, and not turned off. */
export function isCi(env: Environment): boolean {
  return !['', '0', 'false'].includes((env['CI'] ?? '').toLowerCase())
}

/**
 * Whether a stream is a terminal that a person watches, on which a line can be drawn again. A CI job may have a terminal,
 * but its log keeps every byte. `TERM=dumb` has no escape sequences.
 */
export function isScreen(stream: { isTTY?: boolean }, env: Environment): boolean {
  return stream.isTTY === true && env['TERM'] !== 'dumb' && !isCi(env)
}
