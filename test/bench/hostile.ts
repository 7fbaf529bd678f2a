/*
 * What the worst archives cost to look at, beside honest ones with as many entries: links through links, names that are
 * all directories, names that take long to fold, extra fields. Each is extracted by a thread, as in the product, into a
 * target of its own; a word given to this program chooses those whose names contain it. No hostile one should take more
 * than five times as long as its honest twin, whether it is refused or extracted.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { extractArchive } from '../../lib/core/install/unpack/extract.js'
import { createExecutors } from '../../lib/core/install/unpack/executors.js'
import { makeZip, type EntryPlan } from '../support/make-zip.js'
import { sized } from '../support/bench.js'

const link = 0o120777
const many = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: sized(count, 5) }, (_, index) => make(index))
const files = (count: number): EntryPlan[] =>
  many(count, index => ({ name: `d${index % 100}/f${index}.txt`, data: `${index}`, method: 8 }))
const links = (count: number, text: (index: number) => string): EntryPlan[] =>
  many(count, index => ({ name: `l${index}`, data: text(index), method: 8, mode: link }))

interface Load {
  name: string
  honest: EntryPlan[]
  hostile: EntryPlan[]
  /** Directories that the target already contains. */
  target?: string[]
}

const marks = (index: number): string => `${'\u0316\u0301'.repeat(60)}${index}`
const loads: Load[] = [
  {
    name: '200 links in chains, 4 KiB each',
    honest: links(200, index => `target-${index}`),
    hostile: links(200, index => `${'d/../'.repeat(800)}${index % 39 === 0 ? 'end' : `l${index - 1}`}`)
  },
  {
    name: '200 links, 2,000 levels down a deep target',
    honest: links(200, index => `target-${index}`),
    hostile: links(200, () => 'd/'.repeat(2000)),
    target: ['d/'.repeat(1500)]
  },
  {
    name: '4,000 links, 200 levels down and up',
    honest: links(4_000, index => `target-${index}`),
    hostile: links(4_000, index => `${'d/'.repeat(200)}${'../'.repeat(200)}x${index}`)
  },
  {
    name: '4,000 links, just within the limit',
    honest: links(4_000, index => `target-${index}`),
    hostile: links(4_000, index => `${'some-directory/'.repeat(30)}${index}`),
    target: ['some-directory/'.repeat(30)]
  },
  {
    name: '2,000 names of 1,500 directories',
    honest: files(2_000),
    hostile: many(2_000, index => ({ name: `${index}/${'d/'.repeat(1500)}f`, data: '' }))
  },
  {
    name: '1,000 names, as many directories as may be',
    honest: files(1_000),
    hostile: many(1_000, index => ({ name: `${index}/${'d/'.repeat(14)}f`, data: '' }))
  },
  {
    name: '1,000 names 1,500 levels down',
    honest: files(1_000),
    hostile: many(1_000, index => ({ name: `${'d/'.repeat(1500)}f${index}`, data: '' }))
  },
  {
    name: '1,000 names of combining marks',
    honest: files(1_000),
    hostile: many(1_000, index => ({ name: `${marks(index)}/${marks(1)}/${marks(2)}/${marks(3)}`, data: '' }))
  },
  {
    name: '450 extra fields of 64 KB',
    honest: files(450),
    hostile: many(450, index => ({ name: `f${index}`, data: '', extra: Buffer.alloc(65_532) }))
  },
  {
    name: '200 local headers 65 KB apart',
    honest: files(200),
    hostile: many(200, index => ({ name: `f${index}`, data: '', localExtra: Buffer.alloc(65_000) }))
  }
]

const directory = mkdtempSync(join(tmpdir(), 'svc-hostile-'))
const threads = createExecutors()
let runs = 0
const chosen = loads.filter(({ name }) => name.includes(process.argv[2] ?? '')).slice(0, sized(Infinity, 2))

async function extract(entries: EntryPlan[], target: string[]): Promise<{ ms: number; outcome: string }> {
  const base = join(directory, `run-${runs++}`)
  mkdirSync(join(base, 'deployments'), { recursive: true })
  mkdirSync(join(base, 'target'))
  for (const path of target) mkdirSync(join(base, 'target', path), { recursive: true })
  const archivePath = join(base, 'a.zip')
  writeFileSync(archivePath, makeZip(entries))
  const from = performance.now()
  const outcome = await extractArchive(threads, {
    archivePath,
    target: join(base, 'target'),
    deployId: `dep_${runs}`,
    home: { deployments: join(base, 'deployments') },
    limits: { maxEntries: 200_000, maxExtractedBytes: 1e12 },
    signal: new AbortController().signal
  }).then(
    () => 'extracted',
    error => String((error as { code?: string }).code ?? error)
  )
  const ms = performance.now() - from
  rmSync(base, { recursive: true, force: true })
  return { ms, outcome }
}

try {
  await extract(files(10), [])
  for (const { name, honest, hostile, target = [] } of chosen) {
    const fair = await extract(honest, [])
    const foul = await extract(hostile, target)
    console.log(
      `${name}: honest ${fair.ms.toFixed(0)} ms, hostile ${foul.ms.toFixed(0)} ms, ${(foul.ms / fair.ms).toFixed(1)} times (${foul.outcome})`
    )
  }
} finally {
  await threads.close()
  rmSync(directory, { recursive: true, force: true })
}
