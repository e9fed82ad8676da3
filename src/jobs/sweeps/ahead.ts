/** Asks for the next page while the one before it is judged: who answers and who judges work at the same time. */
export async function* ahead<T>(pages: AsyncIterable<T>): AsyncGenerator<T> {
  const source = pages[Symbol.asyncIterator]();
  let next = source.next();
  try {
    for (let page = await next; !page.done; page = await next) {
      next = source.next();
      // Awaited in the next turn; when the judging fails first there is none, and its own error is the one that counts.
      next.catch(() => undefined);
      yield page.value;
    }
  } finally {
    await source.return?.();
  }
}
