/*
 * Adds one to a number in config.json repeatedly, and prints a line each time. Before each change, it creates a lock of
 * a process that does not exist.
 */
import { writeFileSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { processSpace } from '../../../lib/base/runtime.js'
import { locateHome, writeConfig } from '../../../lib/base/config/home.js'

const [directory, times, seed] = process.argv.slice(2) as [string, string, string]
const home = locateHome({ SVC_HOME: directory })
const space = createHash('sha256').update(processSpace()).digest('hex').slice(0, 12)
const { pid } = spawnSync('true')
for (let i = 0; i < Number(times); i++) {
  const random = createHash('sha256').update(`${seed} ${i}`).digest('hex').slice(0, 12)
  writeFileSync(`${home.configFile}.lock.${space}-${pid}-1-${random}`, '')
  await writeConfig(home, config => void (config['n'] = (config['n'] as number) + 1))
  process.stdout.write('1\n')
}
