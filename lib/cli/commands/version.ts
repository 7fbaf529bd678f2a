import { readFile } from 'node:fs/promises'
import { defineCommand, type Family } from '../command.js'

/** The command that prints the version. */
export const commands = {
  version: defineCommand({
    examples: [['version', 'print the version, like "svc --version"']],
    async run(_, { output }) {
      output.print(await packageVersion())
    }
  })
} satisfies Family

/** Returns the version from package.json. */
export async function packageVersion(): Promise<string> {
  const text = await readFile(new URL('../../../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}
