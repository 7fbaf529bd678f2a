import t from 'tap'
import { createResources } from '../../lib/machine/resources.js'
import { setClock } from '../support/clock.js'

t.test('a snapshot has every field of §2.11', async t => {
  const clock = setClock()
  const cpu = { read: async () => ({ host: 12.5, process: 130 }) }
  const snapshot = await createResources({ clock, cpu, directory: t.testdir() }).snapshot()
  t.match(snapshot, {
    collectedAt: '2030-01-01T00:00:00.000Z',
    host: {
      hostname: String,
      platform: process.platform,
      arch: process.arch,
      cpuModel: String,
      cpuCount: Number,
      loadAvg: [Number, Number, Number],
      uptimeSec: Number
    },
    cpu: { percent: 12.5 },
    memory: { totalBytes: Number, freeBytes: Number, availableBytes: Number, usedBytes: Number, percentUsed: Number },
    disk: { freeBytes: Number, totalBytes: Number, percentUsed: Number },
    process: {
      pid: process.pid,
      runtime: /^(node|bun)$/,
      runtimeVersion: /^v/,
      uptimeSec: Number,
      cpuPercent: 130,
      memoryRssBytes: Number,
      memoryHeapUsedBytes: Number
    }
  })
  t.ok(snapshot.container === null || 'memoryLimitBytes' in snapshot.container)
})
