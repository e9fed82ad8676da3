# Three stages: dist is compiled with the development packages, the image holds the run-time ones only.
FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY src src
RUN node scripts/build.mjs

FROM node:24-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --no-audit --no-fund

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=packages /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json LICENSE ./
# By number, so that runAsNonRoot can be checked; the image has a user `node` with this id.
USER 1000:1000
ENTRYPOINT ["node", "/app/dist/cli/main.js"]
CMD ["worker"]
