import { type GlobalConfig, locateHome, readConfig } from '../../config/home.js'
import { maskToken } from '../../config/precedence.js'
import { defineCommand, exitCodes } from '../command.js'

const secretKeys = ['adminToken', 'supervisedToken', 'token']
const secretMaps = ['projectToken', 'adminTokens'] as const
const mapKeys: readonly string[] = [...secretMaps, 'projectTokenOrigin']

/** The command `svc config:list`. */
export const command = defineCommand({
  operands: {},
  options: {
    json: { type: 'switch', help: 'print the configuration as JSON, with tokens masked' }
  },
  examples: [['config:list', 'show the global configuration, with only the last four characters of tokens']],
  async run({ options }, { env, cwd, output }) {
    const home = locateHome(env, cwd)
    const config = masked(await readConfig(home))
    if (options.json) {
      output.json(config)
      return exitCodes.success
    }
    output.note(home.configFile)
    const rows = Object.entries(config).flatMap(([key, value]) =>
      mapKeys.includes(key)
        ? Object.entries(value as Record<string, string>).map(([project, text]) => [`${key} ${project}`, text])
        : [[key, typeof value === 'string' ? value : JSON.stringify(value)]]
    )
    if (rows.length === 0) output.note('Nothing is configured yet.')
    else {
      output.table(rows, [
        { header: 'KEY', cell: row => row[0] ?? '' },
        { header: 'VALUE', cell: row => row[1] ?? '', shrinkTo: 12 }
      ])
    }
    return exitCodes.success
  }
})

function masked(config: GlobalConfig): GlobalConfig {
  const shown = { ...config }
  for (const key of secretKeys) if (typeof shown[key] === 'string') shown[key] = maskToken(shown[key])
  for (const key of secretMaps) {
    const tokens = shown[key]
    if (tokens !== undefined)
      shown[key] = Object.fromEntries(Object.entries(tokens).map(([name, token]) => [name, maskToken(token)]))
  }
  return shown
}
