import { totalmem } from 'node:os'
import t from 'tap'
import { memoryFigures, parseMeminfo, parseVmStat, readMemory } from '../../lib/machine/memory.js'

t.test('computes used and available memory (§2.11)', async t => {
  const cases = [
    { what: 'used counts from what is available', given: [1000, 100, 400], expected: [100, 400, 600, 60] },
    { what: 'free stands in where the system does not say', given: [1000, 100, null], expected: [100, 100, 900, 90] },
    { what: 'never more available than there is', given: [1000, 100, 1200], expected: [100, 1000, 0, 0] }
  ] as const
  for (const { what, given, expected } of cases) {
    const [totalBytes, freeBytes, availableBytes] = given
    const [free, available, usedBytes, percentUsed] = expected
    t.same(
      memoryFigures({ totalBytes, freeBytes, availableBytes }),
      { totalBytes, freeBytes: free, availableBytes: available, usedBytes, percentUsed },
      what
    )
  }
})

t.test('reads /proc/meminfo', async t => {
  const text = 'MemTotal:       2048 kB\nMemFree:         512 kB\nMemAvailable:   1024 kB\nBuffers: 1 kB\n'
  t.same(parseMeminfo(text), { totalBytes: 2_097_152, freeBytes: 524_288, availableBytes: 1_048_576 })
  t.equal(parseMeminfo(text.replace(/MemAvailable.*\n/, ''))?.availableBytes, null, 'before Linux 3.14')
  t.equal(parseMeminfo(''), undefined)
})

t.test('reads vm_stat of macOS', async t => {
  const text = `Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                               10000.
Pages active:                            300000.
Pages inactive:                           20000.
Pages speculative:                         3000.
Pages purgeable:                           4000.
`
  t.equal(parseVmStat(text), 33_000 * 16_384)
  t.equal(parseVmStat('nonsense'), null)
})

t.test('the figures of this machine add up', async t => {
  const memory = await readMemory()
  t.equal(memory.totalBytes, totalmem())
  t.equal(memory.usedBytes, memory.totalBytes - memory.availableBytes)
  t.ok(memory.freeBytes > 0 && memory.freeBytes <= memory.totalBytes)
})
