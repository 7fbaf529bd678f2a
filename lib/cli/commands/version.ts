import { readFile } from 'node:fs/promises'
import { defineCommand, exitCodes } from '../command.js'

export const command = defineCommand({
  operands: {},
  options: {},
  examples: [['version', 'print the version of this svc, as "svc --version" does']],
  async run(_, { output }) {
    output.print(await packageVersion())
    return exitCodes.success
  }
})

/** The version in the package's own description. */
export async function packageVersion(): Promise<string> {
  const text = await readFile(new URL('../../../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
