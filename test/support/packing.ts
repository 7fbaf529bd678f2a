import type { Test } from 'tap'
import type { EffectiveConfig } from '../../lib/base/config/precedence.js'
import type { Context } from '../../lib/cli/command.js'

/** A directory with files in `dist`, a configuration that packs them, and what the terminal is told meanwhile. */
export function packingStage(t: Pick<Test, 'testdir'>, dist: Record<string, string>, configured: object = {}) {
  const cwd = t.testdir({ dist })
  const said: string[] = []
  const bar = {
    update: () => {},
    end: (line: string) => void said.push(`end: ${line}`),
    clear: () => void said.push('clear')
  }
  const output = {
    progress: (what: string) => (said.push(what), bar),
    warn: (line: string) => void said.push(`warn: ${line}`),
    note: (line: string) => void said.push(`note: ${line}`)
  }
  const of = <T>(value: T) => ({ value })
  const config = {
    outputDir: of('dist'),
    files: of([]),
    ignoreBuiltin: of(false),
    projectIgnore: of([]),
    cliIgnore: of([]),
    ...configured
  } as unknown as EffectiveConfig
  return { context: { cwd, output } as unknown as Context, config, cwd, said }
}
