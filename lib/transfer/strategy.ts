/** What an import does with a record that is here already (§4.13, import rule 1): the first two leave it as it is. */
export const strategies = ['skip-existing', 'merge', 'overwrite'] as const
export type Strategy = (typeof strategies)[number]
