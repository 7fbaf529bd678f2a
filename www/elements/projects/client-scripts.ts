/** The values of `allowClientScripts`, with their words in English for t(). */
export const clientScripts: ReadonlyArray<{ value: string; allowed: boolean | null; words: string }> = [
  { value: '', allowed: null, words: 'Use the server setting' },
  { value: 'yes', allowed: true, words: 'Run them unless the project has its own' },
  { value: 'no', allowed: false, words: 'Reject pushes with scripts' }
]
