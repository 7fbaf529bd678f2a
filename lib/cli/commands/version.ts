import { readFile } from 'node:fs/promises'
import { defineCommand, exitCodes } from '../command.js'

/** The command `svc version`. */
export const command = defineCommand({
  operands: {},
  options: {},
  examples: [['version', 'print the version, like "svc --version"']],
  async run(_, { output }) {
    output.print(await packageVersion())
    return exitCodes.success
  }
})

/** Returns the version from package.json. */
export async function packageVersion(): Promise<string> {
  const text = await readFile(new URL('../../../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
