import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'

const lib = fileURLToPath(new URL('../../../lib/', import.meta.url))

/** Returns what a file loads at once; types load nothing. */
function loadedBy(path: string): string[] {
  const text = readFileSync(join(lib, path), 'utf8')
  return [...text.matchAll(/^(?:import|export)\s+(?!type\b)(?:[\w\s{},*$]+\sfrom\s+)?'(\.[^']+)'/gm)]
    .filter(([line]) => !/^import \{\s*(?:type \w+(?: as \w+)?,?\s*)+\}/.test(line))
    .map(match => normalize(join(dirname(path), match[1] as string)).replace(/\.js$/, '.ts'))
}

t.test('a server alone loads nothing of a cluster', async t => {
  const seen = new Set<string>()
  // The command, and what `serve` loads after it listens.
  const queue = ['cli/commands/serve.ts', 'server/serve.ts', 'server/services.ts', 'server/table.ts']
  for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
    if (seen.has(path)) continue
    seen.add(path)
    queue.push(...loadedBy(path))
  }
  t.ok(seen.has('core/store/durable-store.ts') && seen.size > 100)
  const ofCluster = /^(cluster\/|base\/config\/cluster-file)/
  t.strictSame(
    [...seen].filter(path => ofCluster.test(path)),
    []
  )
})
