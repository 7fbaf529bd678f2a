/** Not all of the four threads that the whole process has for its files. */
const callsAbreast = 3

/** Does some work for each item, three at a time; rejects with the first failure, after which no more are begun. */
export async function abreast<T>(items: Iterable<T>, work: (item: T) => Promise<void>): Promise<void> {
  const waiting = items[Symbol.iterator]()
  let hasFailed = false
  const lane = async (): Promise<void> => {
    for (let next = waiting.next(); !next.done && !hasFailed; next = waiting.next()) {
      await work(next.value).catch(error => {
        hasFailed = true
        throw error
      })
    }
  }
  await Promise.all(Array.from({ length: callsAbreast }, lane))
}
